"""YAML as composed nodes: every value keeps its line, and every mistake is collected."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import yaml

from offset_ledger.errors import PipelineFileError

T = TypeVar("T")
CORE = "tag:yaml.org,2002:"


class PipelineLoader(yaml.SafeLoader):
    """Plain scalars as YAML 1.2, and so editors, read them: ``yes``, ``012``, ``1:30`` and dates are text."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # PyYAML's own declaration


for _tag, _pattern, _first in (
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", list("tTfF")),
    ("int", r"^[-+]?(?:0|[1-9][0-9]*)$", list("-+0123456789")),
    ("float", r"^[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", list("-+.0123456789")),
):
    PipelineLoader.add_implicit_resolver(CORE + _tag, re.compile(_pattern), _first)


class Refused(Exception):
    """A value is wrong: what is wrong with it, and what would be right."""

    def __init__(self, wrong: str, right: str, line: int | None = None) -> None:
        self.wrong, self.right, self.line = wrong, right, line
        super().__init__(f"{wrong}; {right}")


@dataclass(frozen=True, slots=True)
class Mistakes:
    """The mistakes of one file, in the order of its lines."""

    file: Path
    found: list[tuple[int, str]] = field(default_factory=list)

    def add(self, line: int, wrong: str, right: str) -> None:
        """Keep one mistake and go on."""
        self.found.append((line, f"{self.file}:{line}: {wrong}; {right}"))

    def raise_if_any(self) -> None:
        """Raise one PipelineFileError with everything found."""
        if self.found:
            raise PipelineFileError([text for _, text in sorted(self.found, key=lambda mistake: mistake[0])])


@dataclass(frozen=True, slots=True)
class Value:
    """A node, the dotted place it has in the file, the line of its key, and the list its mistakes go to."""

    where: str
    line: int
    node: yaml.Node
    mistakes: Mistakes

    def read(self, read: Callable[[Value], T], fallback: T) -> T:
        """What ``read`` makes of the value; a refusal is noted and ``fallback`` stands in until the end."""
        try:
            return read(self)
        except Refused as refused:
            self.note(refused)
            return fallback

    def note(self, refused: Refused) -> None:
        """Keep a refusal with the place of this value."""
        prefix = f"{self.where}: " if self.where else ""
        self.mistakes.add(refused.line or line_of(self.node), prefix + refused.wrong, refused.right)


class Section:
    """A mapping whose keys are those of its JSON Schema object: unknown, repeated and missing keys are noted."""

    def __init__(self, value: Value, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._entries = entries(value, flow(schema["examples"][0]))
        for key, entry in list(self._entries.items()):
            if key not in schema["properties"]:
                del self._entries[key]
                value.mistakes.add(entry.line, f"{entry.where} is not a known key", self._known(key))
        for key in schema.get("required", ()):
            if key not in self._entries:
                value.mistakes.add(value.line, f"{dotted(value.where, key)} is missing", self._example(key))

    def entry(self, key: str) -> Value | None:
        """The value of ``key`` where the file gives one."""
        return self._entries.get(key)

    def take(self, key: str, read: Callable[[Value], T], fallback: T) -> T:
        """The value of ``key`` as ``read`` makes it, or ``fallback`` where it is absent or wrong."""
        return self._entries[key].read(read, fallback) if key in self._entries else fallback

    def _known(self, key: str) -> str:
        close = get_close_matches(key, self._schema["properties"], n=1)
        return f"did you mean {close[0]}?" if close else f"the keys are {', '.join(self._schema['properties'])}"

    def _example(self, key: str) -> str:
        return f"add it, for example {key}: {flow(self._schema['properties'][key]['examples'][0])}"


def entries(value: Value, example: str) -> dict[str, Value]:
    """The entries of a mapping by key; of a repeated key the first stays and each other is noted."""
    if not isinstance(value.node, yaml.MappingNode):
        raise Refused(f"expected a mapping, found {describe(value.node)}", f"write for example {example}", value.line)
    found: dict[str, Value] = {}
    for key_node, node in value.node.value:
        line = line_of(key_node)
        if not isinstance(key_node, yaml.ScalarNode) or key_node.tag != CORE + "str":
            wrong = f"{value.where or 'the file'} has a key that is not text: {describe(key_node)}"
            value.mistakes.add(line, wrong, "write a name, in quotes if YAML reads it as something else")
        elif (key := key_node.value) in found:
            wrong = f"{dotted(value.where, key)} is given twice, first in line {found[key].line}"
            value.mistakes.add(line, wrong, "keep one of them")
        else:
            found[key] = Value(dotted(value.where, key), line, node, value.mistakes)
    return found


def dotted(where: str, key: str) -> str:
    """The place of ``key`` inside ``where``."""
    shown = key if re.fullmatch(r"[^\s.\x00-\x1f]+", key) else repr(key)
    return f"{where}.{shown}" if where else shown


def flow(example: object) -> str:
    """A value of a JSON Schema example as YAML on one line."""
    if isinstance(example, dict):
        return "{" + ", ".join(f"{key}: {flow(value)}" for key, value in example.items()) + "}"
    return json.dumps(example) if isinstance(example, (bool, list)) else str(example)


def line_of(node: yaml.Node) -> int:
    """The line of the file, counted from 1, where the node begins."""
    return int(node.start_mark.line) + 1


def describe(node: yaml.Node) -> str:
    """The node in the words of an error message."""
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    if node.tag == CORE + "null":
        return "nothing"
    if node.tag in (CORE + "int", CORE + "float", CORE + "bool"):
        return shortened(node.value)
    return quoted(node.value) if node.tag == CORE + "str" else f"a value tagged {quoted(node.tag)}"


def quoted(text: str) -> str:
    """The text in quotes on one line, cut to a readable length."""
    return repr(shortened(text))


def shortened(text: str) -> str:
    """At most 60 characters of the text."""
    return text if len(text) <= 60 else f"{text[:57]}..."


def compose(data: bytes) -> yaml.Node:
    """The root node of a YAML document; refuses what is not one document of UTF-8 YAML, with the line."""
    try:
        text = data.decode()
        node = yaml.compose(text, Loader=PipelineLoader)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Refused(f"byte 0x{data[error.start]:02x} is not UTF-8", "save the file as UTF-8", line) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise Refused(f"character U+{error.character:04X} is not allowed in YAML", "remove it", line) from None
    except yaml.MarkedYAMLError as error:
        raise _syntax(error) from None
    except RecursionError:
        raise Refused("the YAML is nested too deeply to be read", "a pipeline file has three levels", 1) from None
    if node is None or node.tag == CORE + "null":
        raise Refused("the file is empty", "describe a pipeline, beginning with pipeline: <name>", 1)
    return node


def _syntax(error: yaml.MarkedYAMLError) -> Refused:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    said = ", ".join(part for part in (error.context, error.problem) if part)
    return Refused(f"not valid YAML: {said}", f"look at column {column} and the line before it", line)
