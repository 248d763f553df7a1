"""Paths into a record: ``$.a.b`` and ``$['any name']``, as tuples of member names."""

import re

from offset_ledger.pipeline_file.located import Refused, quoted
from offset_ledger.pipeline_file.pipeline import JsonPath

_PLAIN = r"[A-Za-z0-9_-]+"
_STEP = rf"\.{_PLAIN}|\['(?:[^'\\]|\\['\\])+'\]"
PATH_PATTERN = rf"^\$(?:{_STEP})+$"
FORMS = "write $.a.b, or $['any name'] for a name with other characters"


def parse_path(text: str) -> JsonPath:
    """The member names of a path, outermost first."""
    if not re.fullmatch(PATH_PATTERN[1:-1], text):
        if re.fullmatch(_PLAIN, text.split(".")[0]) and re.fullmatch(PATH_PATTERN[1:-1], f"$.{text}"):
            raise Refused(f"{quoted(text)} is not a path", f"write $.{text}")
        if text == "$":
            raise Refused("'$' is the whole record", "name a member of it, such as $.payload")
        readable = re.match(rf"\$(?:{_STEP})*", text)
        if readable is None:
            raise Refused(f"{quoted(text)} is not a path", FORMS)
        rest = text[readable.end() :]
        if re.match(r"\[(?:-?[0-9]|\*|:|\?)|\.\.|\.\*", rest):
            wrong = f"{quoted(text)} steps into a list or a wildcard at {quoted(rest)}"
            raise Refused(wrong, "declare the list itself as jsonb")
        raise Refused(f"{quoted(text)} is not a path from {quoted(rest)} on", FORMS)
    steps = (step.group() for step in re.finditer(_STEP, text))
    return tuple(step[1:] if step.startswith(".") else re.sub(r"\\(.)", r"\1", step[2:-2]) for step in steps)


def format_path(path: JsonPath) -> str:
    """The text that :func:`parse_path` reads as this path."""
    quoted_names = (re.sub(r"(['\\])", r"\\\1", name) for name in path)
    return "$" + "".join(f".{name}" if re.fullmatch(_PLAIN, name) else f"['{name}']" for name in quoted_names)


def touch(one: JsonPath, other: JsonPath) -> bool:
    """Return whether the paths are one, or one of them lies inside the other."""
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared]
