"""The table of :mod:`offset_ledger.validate.known_expectations`, from the installed version of Great Expectations."""

from __future__ import annotations

import json
from collections.abc import Set
from datetime import date
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from offset_ledger.validate import expectations as gx

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation

# Arguments that Great Expectations checks further than their type says.
_BY_NAME = {
    "column_list": "columns",
    "mostly": "share",
    "row_condition": "condition",
    "unexpected_rows_query": "query",
    "value_set": "values",
}
_DEPRECATED = frozenset({"condition_parser"})
_BY_TYPE = {str: "text", bool: "flag", int: "integer", float: "number", list[str]: "texts"}


def table_text() -> str:
    """The table as known_expectations.json holds it: a line for each expectation type."""
    version = gx.load().__version__
    lines = (f"{json.dumps(name)}: {json.dumps(known)}" for name, known in _types().items())
    return f'{{"version": {json.dumps(version)}, "types": {{\n' + ",\n".join(lines) + "\n}}\n"


def _types() -> dict[str, dict[str, Any]]:
    kinds = {name: gx.implementation(name) for name in gx.known_types()}
    known = {name: _known(kind) for name, kind in kinds.items()}
    return {name: each for name, each in known.items() if set(each["required"]) <= each["arguments"].keys()}


def _known(kind: type[Expectation]) -> dict[str, Any]:
    own = {name: field for name, field in kind.__fields__.items() if name not in _of_every_type() | _DEPRECATED}
    kinds = {name: _kind(name, field) for name, field in own.items()}
    return {
        "names_rows": gx.names_rows(kind),
        "runs_on_postgres": gx.runs_on_postgres(kind),
        "arguments": {name: each for name, each in sorted(kinds.items()) if each},
        "required": sorted(name for name, field in own.items() if field.required),
    }


def _of_every_type() -> Set[str]:
    from great_expectations.expectations.expectation import BatchExpectation

    return BatchExpectation.__fields__.keys()


def _kind(name: str, field: Any) -> str | list[str] | None:
    if name in _BY_NAME:
        return _BY_NAME[name]
    kinds = [field.outer_type_, *get_args(field.outer_type_)]
    choices = next((list(get_args(kind)) for kind in kinds if get_origin(kind) is Literal), None)
    if choices or field.class_validators:
        return choices
    if date in kinds:
        return "bound"
    return next((known for kind, known in _BY_TYPE.items() if any(_is(each, kind) for each in kinds)), None)


def _is(annotation: Any, kind: Any) -> bool:
    return annotation == kind or (kind is str and isinstance(annotation, type) and issubclass(annotation, str))


if __name__ == "__main__":
    print(table_text(), end="")
