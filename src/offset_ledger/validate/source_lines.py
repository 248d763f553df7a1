"""JSON with the line of each value, so that an error message can say where a mistake is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

Place = tuple[str | int, ...]


class UnclearSource(ValueError):
    """It is JSON, but a key would silently be lost, or the lines of its values are unclear."""

    def __init__(self, msg: str, lineno: int) -> None:
        self.msg, self.lineno = msg, lineno
        super().__init__(msg)


def parse(text: str) -> tuple[Any, Mapping[Place, int]]:
    """The value, and the line on which each place in it begins.

    Raises:
        json.JSONDecodeError: it is not JSON.
        UnclearSource: a key stands twice in one object, or apart from its colon.
    """
    value = json.loads(text)
    try:
        # JSON without tabs is YAML, but for line breaks before a colon; and composed nodes know their lines.
        node = yaml.compose(text.replace("\t", " "), Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UnclearSource("write each key and its colon on one line", line) from None
    return value, dict(_lines(node, ()))


def line_of(lines: Mapping[Place, int], *place: str | int) -> int:
    """The line of a place, or of the nearest thing around it that is in the file."""
    while place not in lines and place:
        place = place[:-1]
    return lines.get(place, 1)


def _lines(node: yaml.Node | None, place: Place) -> Iterator[tuple[Place, int]]:
    if node is None:
        return
    yield place, node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                raise UnclearSource(f"key {key.value!r} stands twice in one object", key.start_mark.line + 1)
            seen.add(key.value)
            yield from _lines(value, (*place, key.value))
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield from _lines(value, (*place, index))
