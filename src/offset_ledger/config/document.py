"""A pipeline file as values that know their place and their line, and every mistake in it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from offset_ledger.config.located import Refused, describe, is_text, line_of
from offset_ledger.errors import PipelineFileError

_PLAIN_KEY = re.compile(r"[^\s.\x00-\x1f]+")


@dataclass(frozen=True, slots=True)
class Mistakes:
    """The mistakes of one file, in the order of its lines."""

    file: Path
    noted: list[tuple[int, str]] = field(default_factory=list)

    def add(self, line: int, wrong: str, right: str) -> None:
        """Keep one mistake and go on."""
        self.noted.append((line, f"{self.file}:{line}: {wrong}; {right}"))

    def raise_if_any(self) -> None:
        """Raise one PipelineFileError with all of them."""
        if self.noted:
            raise PipelineFileError([text for _, text in sorted(self.noted, key=lambda mistake: mistake[0])])


@dataclass(frozen=True, slots=True)
class Value:
    """A node, its key, the dotted place it has in the file, the line of its key, and the list its mistakes go to."""

    key: str
    where: str
    line: int
    node: yaml.Node
    mistakes: Mistakes

    def note(self, refused: Refused) -> None:
        """Keep a refusal with the place of this value."""
        prefix = f"{self.where}: " if self.where else ""
        self.mistakes.add(refused.line or line_of(self.node), prefix + refused.wrong, refused.right)

    def items(self) -> list[Value]:
        """The values of a list; none of anything else."""
        nodes = self.node.value if isinstance(self.node, yaml.SequenceNode) else ()
        return [
            Value(self.key, f"{self.where}[{place}]", line_of(node), node, self.mistakes)
            for place, node in enumerate(nodes)
        ]

    def entries(self) -> dict[str, Value]:
        """The entries of a mapping by key, of a repeated key the first; none of anything else."""
        pairs = self.node.value if isinstance(self.node, yaml.MappingNode) else ()
        entries: dict[str, Value] = {}
        for key, node in pairs:
            if is_text(key):
                entries.setdefault(key.value, self._entry(key, node))
        return entries

    def at(self, *keys: str) -> Value | None:
        """The value under these keys, one inside the other, where the file gives one."""
        value: Value | None = self
        for key in keys:
            value = value.entries().get(key) if value else None
        return value

    def note_lost_keys(self) -> None:
        """Note each key of a mapping that is not text, or that an earlier line has."""
        first: dict[str, int] = {}
        for key, _ in self.node.value:
            if not is_text(key):
                wrong = f"{self.where or 'the file'} has a key that is not text: {describe(key)}"
                self.mistakes.add(line_of(key), wrong, "write a name, in quotes if YAML reads it as something else")
            elif key.value in first:
                wrong = f"{dotted(self.where, key.value)} is given twice, first in line {first[key.value]}"
                self.mistakes.add(line_of(key), wrong, "keep one of them")
            else:
                first[key.value] = line_of(key)

    def _entry(self, key: yaml.Node, node: yaml.Node) -> Value:
        return Value(key.value, dotted(self.where, key.value), line_of(key), node, self.mistakes)


def dotted(where: str, key: str) -> str:
    """The place of ``key`` inside ``where``."""
    shown = key if _PLAIN_KEY.fullmatch(key) else repr(key)
    return f"{where}.{shown}" if where else shown
