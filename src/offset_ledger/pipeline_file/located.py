"""Documents with lines: YAML and JSON as nodes, a pipeline file as values; each knows its place, mistakes too."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from offset_ledger.errors import PipelineFileError

CORE = "tag:yaml.org,2002:"
Place = tuple[str | int, ...]


class Refused(Exception):
    """An error about one value: what is wrong with it, and what would be right."""

    def __init__(self, wrong: str, right: str, line: int | None = None) -> None:
        self.wrong, self.right, self.line = wrong, right, line
        super().__init__(f"{wrong}; {right}")


class EmptyFile(Refused):
    """A file has nothing in it, or comments alone."""


class PlainLoader(yaml.SafeLoader):
    """Plain scalars as YAML 1.2, and so editors, read them: ``yes``, ``012``, ``1:30`` and dates are text."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # PyYAML's own declaration


for _tag, _pattern, _first in (
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", list("tTfF")),
    ("int", r"^[-+]?(?:0|[1-9][0-9]*)$", list("-+0123456789")),
    ("float", r"^[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", list("-+.0123456789")),
):
    PlainLoader.add_implicit_resolver(CORE + _tag, re.compile(_pattern), _first)


def _composed(text: str, name: str) -> yaml.Node | None:
    """Return the root node, by PyYAML's own parser: libyaml gives an empty value another line."""
    loader = PlainLoader(text)
    loader.name = name
    root: yaml.Node | None = loader.get_single_node()
    return root


def read_file(path: Path) -> tuple[bytes, yaml.Node]:
    """Return a file's bytes and root node, whose marks name it; refuse anything but one YAML document in UTF-8."""
    try:
        text = _decoded(data := path.read_bytes())
    except FileNotFoundError:
        raise Refused("there is no such file", "give the path of a pipeline file") from None
    except OSError as error:
        raise Refused(f"the file cannot be read: {error.strerror}", "give a readable file") from None
    try:
        node = _composed(text, str(path))
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise Refused(f"character U+{error.character:04X} is not allowed in YAML", "remove it", line) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        said = ", ".join(part for part in (error.context, error.problem) if part)
        raise Refused(f"not valid YAML: {said}", f"look at column {column} and the line before it", line) from None
    except RecursionError:
        raise Refused("the YAML is nested too deeply to be read", "a pipeline file has three levels", 1) from None
    if node is None or node.tag == CORE + "null":
        raise EmptyFile("the file is empty", "describe a pipeline, beginning with pipeline: <name>", 1)
    return data, node


def read_json(data: bytes) -> tuple[Any, Mapping[Place, int]]:
    """The value of a JSON document, and the line on which each place in it begins.

    Raises:
        Refused: it is not JSON of UTF-8, or a key stands twice in one object or apart from its colon.
    """
    text = _decoded(data)
    try:
        value = json.loads(text)
        # JSON without tabs is YAML, but for line breaks before a colon; and composed nodes know their lines.
        return value, dict(_lines(_composed(text.replace("\t", " "), ""), ()))
    except json.JSONDecodeError as error:
        raise Refused(f"not valid JSON: {error.msg}", "correct the syntax", error.lineno) from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise Refused("a key stands apart from its colon", "write each key and its colon on one line", line) from None
    except RecursionError:
        raise Refused("the JSON is nested too deeply to be read", "write fewer levels", 1) from None


def nearest_line(lines: Mapping[Place, int], *place: str | int) -> int:
    """The line of a place, or of the nearest thing around it that is in the file."""
    while place not in lines and place:
        place = place[:-1]
    return lines.get(place, 1)


def line_of(node: yaml.Node) -> int:
    """The line of the file, counted from 1, where the node begins."""
    return int(node.start_mark.line) + 1


def is_text(node: yaml.Node) -> bool:
    """Return whether the node is a text."""
    return isinstance(node, yaml.ScalarNode) and node.tag == CORE + "str"


def is_null(node: yaml.Node) -> bool:
    """Return whether the node is ``null``, ``~`` or nothing at all."""
    return bool(node.tag == CORE + "null")


def describe(node: yaml.Node) -> str:
    """The node in the words of an error message."""
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    if is_null(node):
        return "nothing"
    if node.tag in (CORE + "int", CORE + "float", CORE + "bool"):
        return shortened(node.value)
    return quoted(node.value) if is_text(node) else f"a value tagged {quoted(node.tag)}"


def quoted(text: str) -> str:
    """The text in quotes on one line, cut to a readable length."""
    return repr(shortened(text))


def shortened(text: str) -> str:
    """Return at most 60 characters of the text."""
    return text if len(text) <= 60 else f"{text[:57]}..."


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Refused(f"byte 0x{data[error.start]:02x} is not UTF-8", "save the file as UTF-8", line) from None


def _lines(node: yaml.Node | None, place: Place) -> Iterator[tuple[Place, int]]:
    if node is None:
        return
    yield place, line_of(node)
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                raise Refused(f"key {key.value!r} stands twice in one object", "keep one of them", line_of(key))
            seen.add(key.value)
            yield from _lines(value, (*place, key.value))
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield from _lines(value, (*place, index))


_PLAIN_KEY = re.compile(r"[^\s.\x00-\x1f]+")


@dataclass(frozen=True, slots=True)
class Mistakes:
    """The mistakes of a file, and of the defaults of its folder, in the order of their lines."""

    file: Path
    noted: list[tuple[Path, int, str]] = field(default_factory=list)

    def add(self, line: int, wrong: str, right: str) -> None:
        """Keep one mistake and go on."""
        self.noted.append((self.file, line, f"{self.file}:{line}: {wrong}; {right}"))

    def of(self, node: yaml.Node) -> "Mistakes":
        """Return the same mistakes, where they are of the file that this node is in."""
        name = node.start_mark.name
        return self if name == str(self.file) else replace(self, file=Path(name))

    def raise_if_any(self) -> None:
        """Raise one PipelineFileError with all of them."""
        if self.noted:
            raise PipelineFileError([text for _, _, text in sorted(self.noted, key=lambda mistake: mistake[:2])])


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

    def items(self) -> list["Value"]:
        """The values of a list; none of anything else."""
        nodes = self.node.value if isinstance(self.node, yaml.SequenceNode) else ()
        return [
            Value(self.key, f"{self.where}[{place}]", line_of(node), node, self.mistakes.of(node))
            for place, node in enumerate(nodes)
        ]

    def entries(self) -> dict[str, "Value"]:
        """The entries of a mapping by key, of a repeated key the first; none of anything else."""
        pairs = self.node.value if isinstance(self.node, yaml.MappingNode) else ()
        entries: dict[str, Value] = {}
        for key, node in pairs:
            if is_text(key):
                entry = Value(key.value, dotted(self.where, key.value), line_of(key), node, self.mistakes.of(key))
                entries.setdefault(key.value, entry)
        return entries

    def at(self, *keys: str) -> "Value | None":
        """Return the value under these keys, one inside the other, if the file gives one."""
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
                self.mistakes.of(key).add(
                    line_of(key), wrong, "write a name, in quotes if YAML reads it as something else"
                )
            elif key.value in first:
                wrong = f"{dotted(self.where, key.value)} is given twice, first in line {first[key.value]}"
                self.mistakes.of(key).add(line_of(key), wrong, "keep one of them")
            else:
                first[key.value] = line_of(key)


def dotted(where: str, key: str) -> str:
    """The place of ``key`` inside ``where``."""
    shown = key if _PLAIN_KEY.fullmatch(key) else repr(key)
    return f"{where}.{shown}" if where else shown
