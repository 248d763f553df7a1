"""A suite file: Great Expectations' own ExpectationSuite JSON, checked completely before a batch depends on it."""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Any

from offset_ledger.base.extras import require
from offset_ledger.errors import ConfigurationError
from offset_ledger.pipeline_file.located import Place, Refused, nearest_line, read_json
from offset_ledger.steps.validate import expectations as gx

_SUITE_KEYS = frozenset({"name", "expectations", "id", "meta", "notes", "suite_parameters"})
_ENTRY_KEYS = frozenset(
    {"type", "kwargs", "meta", "notes", "id", "severity", "description", "expectation_context", "rendered_content"}
)
# These would let a suite collect rows into Python, or turn a failure inside Great Expectations into a crash.
_OURS = {"result_format": "the gate chooses it", "catch_exceptions": "an exception is always a failure"}
_SINGLE_COLUMN = ("column", "column_A", "column_B")
_COLUMN_LISTS = ("column_list", "column_set")


class SuiteAction(StrEnum):
    """The consequence of an expectation that fails."""

    QUARANTINE = "quarantine"  # the failing rows are moved, the rest of the batch goes on
    REJECT = "reject"  # the batch is rejected
    WARN = "warn"  # it is reported, and nothing else


@dataclass(frozen=True, slots=True)
class Expectation:
    """One entry of a suite file. ``configuration`` is the entry as Great Expectations reads it."""

    line: int
    type: str
    columns: tuple[str, ...]
    action: SuiteAction
    configuration: Mapping[str, Any] = field(repr=False)

    @property
    def text(self) -> str:
        """The description of the file, or the type with its arguments."""
        arguments = ", ".join(f"{key}={json.dumps(value)}" for key, value in self.configuration["kwargs"].items())
        return str(self.configuration.get("description") or f"{self.type}({arguments})")


@dataclass(frozen=True, slots=True)
class Suite:
    """A checked suite file. ``sha256`` is that of its bytes."""

    name: str
    path: Path
    sha256: str
    expectations: tuple[Expectation, ...]


def load_suite(path: Path, columns: Collection[str]) -> Suite:
    """The suite of that file, for a staging table with those columns.

    Raises:
        ConfigurationError: the file is missing or has mistakes; all of them, a line each with file and line number. Or
            Great Expectations is not installed.
    """
    require("gx", "a suite")
    try:
        raw = path.read_bytes()
        document, lines = read_json(raw)
    except FileNotFoundError:
        raise ConfigurationError(f"{path}: there is no such suite file; create it or change quality.suite") from None
    except Refused as refused:
        raise ConfigurationError(f"{path}:{refused.line}: {refused}") from None
    kept = gx.KeptFacts.of_user()
    reader = _Reader(columns, lines, kept)
    expectations = reader.suite(document)
    kept.write()
    if reader.mistakes:
        raise ConfigurationError("\n".join(f"{path}:{line}: {text}" for line, text in sorted(reader.mistakes)))
    return Suite(str(document["name"]), path, hashlib.sha256(raw).hexdigest(), tuple(expectations))


class _Reader:
    """The reader of a suite document, which collects mistakes instead of stopping at the first."""

    def __init__(self, columns: Collection[str], lines: Mapping[Place, int], kept: gx.KeptFacts) -> None:
        self._columns = columns
        self._kept = kept
        self._lines = lines
        self.mistakes: list[tuple[int, str]] = []

    def suite(self, document: Any) -> list[Expectation]:
        if not isinstance(document, dict):
            self._note((), f"expected an object with name and expectations, found {_kind(document)}")
            return []
        self._unknown_keys((), document, _SUITE_KEYS)
        if not isinstance(document.get("name"), str) or not document["name"]:
            self._note(("name",), "name: expected the name of the suite as text; add it")
        if document.get("suite_parameters"):
            self._note(("suite_parameters",), "suite parameters are not supplied here; write the values themselves")
        entries = document.get("expectations")
        if not isinstance(entries, list) or not entries:
            self._note(("expectations",), "expectations: expected a list with at least one expectation; add one")
            return []
        read = (self._expectation(("expectations", index), entry) for index, entry in enumerate(entries))
        return [expectation for expectation in read if expectation is not None]

    def _expectation(self, place: Place, entry: Any) -> Expectation | None:
        if not isinstance(entry, dict):
            self._note(place, f"expected an expectation object, found {_kind(entry)}")
            return None
        self._unknown_keys(place, entry, _ENTRY_KEYS)
        kwargs, meta = entry.get("kwargs") or {}, entry.get("meta") or {}
        for key, value in (("kwargs", kwargs), ("meta", meta)):
            if not isinstance(value, dict):
                self._note((*place, key), f"{key}: expected an object, found {_kind(value)}")
                return None
        once = meta.get("once_declared", False)
        if not isinstance(once, bool):
            self._note((*place, "meta", "once_declared"), f"once_declared: expected true or false, found {once!r}")
        elif once and any(name not in self._columns for _, name in _columns_of(kwargs, place)):
            return None  # it is about a column that the pipeline file does not declare yet, and says so
        columns = self._known_columns((*place, "kwargs"), kwargs)
        action = self._action(place, entry, meta)
        name = str(entry.get("type"))
        if not self._kept.is_known(name):
            close = get_close_matches(name, gx.known_types(), n=1)
            right = f"did you mean {close[0]}?" if close else "see the gallery of Great Expectations for what there is"
            wrong = f"{entry.get('type')!r} is not an expectation type that Great Expectations knows"
            self._note((*place, "type"), f"{wrong}; {right}")
            return None
        configuration = {**entry, "kwargs": kwargs, "meta": meta}
        self._build(place, configuration, action)
        return Expectation(nearest_line(self._lines, *place), entry["type"], columns, action, configuration)

    def _known_columns(self, place: Place, kwargs: Mapping[str, Any]) -> tuple[str, ...]:
        named = list(_columns_of(kwargs, place))
        for where, name in named:
            if name not in self._columns:
                close = get_close_matches(name, self._columns, n=1)
                right = f"did you mean {close[0]!r}?" if close else f"the columns are {', '.join(self._columns)}"
                self._note(where, f"column {name!r} is not in the staging table; {right}")
        return tuple(name for where, name in named if "row_condition" not in where)

    def _action(self, place: Place, entry: Mapping[str, Any], meta: Mapping[str, Any]) -> SuiteAction:
        if "action" not in meta:
            return SuiteAction.WARN if entry.get("severity") in ("warning", "info") else SuiteAction.REJECT
        if meta["action"] in list(SuiteAction):
            return SuiteAction(meta["action"])
        right = f"one of {', '.join(SuiteAction)}"
        self._note((*place, "meta", "action"), f"action: expected {right}, found {meta['action']!r}")
        return SuiteAction.REJECT

    def _build(self, place: Place, configuration: dict[str, Any], action: SuiteAction) -> None:
        kwargs = configuration["kwargs"]
        for key in _OURS.keys() & kwargs.keys():
            self._note((*place, "kwargs", key), f"{key} is not allowed in a suite: {_OURS[key]}; remove it")
        try:
            facts = self._kept.facts_of({key: value for key, value in configuration.items() if key in _ENTRY_KEYS})
        except ValueError as error:
            for text in str(error).splitlines():
                self._note((*place, "kwargs", text.split(":")[0]), text)
            return
        for parameter in facts.parameters:
            self._note(place, f"parameter {parameter!r} is not supplied here; write the value itself")
        if not facts.runs_on_postgres:
            wrong = f"Great Expectations cannot run {configuration['type']} on Postgres, where the rows are"
            self._note((*place, "type"), f"{wrong}; use another expectation")
        if action is SuiteAction.QUARANTINE and not facts.names_rows:
            wrong = "quarantine needs an expectation about single rows"
            self._note((*place, "meta", "action"), f"{wrong}; use reject or warn here")
        elif action is SuiteAction.QUARANTINE and kwargs.get("mostly", 1) != 1:
            wrong = "quarantine moves each failing row, so mostly says nothing"
            right = "remove it (quality.max_quarantined_share is the limit) or use reject"
            self._note((*place, "kwargs", "mostly"), f"{wrong}; {right}")
        if isinstance(query := kwargs.get("unexpected_rows_query"), str) and (amiss := _wrong_in(query)):
            self._note((*place, "kwargs", "unexpected_rows_query"), amiss)

    def _unknown_keys(self, place: Place, json_object: Mapping[str, Any], known: Collection[str]) -> None:
        for key in json_object.keys() - set(known):
            self._note((*place, key), f"{key!r} is not a known key; known are {', '.join(sorted(known))}")

    def _note(self, place: Place, text: str) -> None:
        self.mistakes.append((nearest_line(self._lines, *place), text))


def _wrong_in(query: str) -> str | None:
    """Return what Great Expectations, which formats a query and hands it to SQLAlchemy's ``text``, would misread."""
    from sqlalchemy import text  # a suite with a query is rare, and this takes its time

    if "{batch}" not in query:
        return "the query must read FROM {batch}, the staged rows"
    try:
        formatted = query.format(batch="staged")
    except (LookupError, ValueError):
        return "the braces of the query are those of a template; write {{ and }} for its own"
    if names := [*text(formatted).compile().params]:
        return f"the query has a parameter :{names[0]} for SQLAlchemy; write a blank after the colon, or \\: for it"
    if "--" in query.rstrip("\n").rpartition("\n")[2].rpartition("'")[2]:
        return "the query ends in a comment, and Great Expectations writes behind it; drop it"
    return None


def _columns_of(kwargs: Mapping[str, Any], place: Place) -> Iterator[tuple[Place, str]]:
    for key in _SINGLE_COLUMN:
        if isinstance(kwargs.get(key), str):
            yield (*place, key), kwargs[key]
    for key in _COLUMN_LISTS:
        for index, name in enumerate(kwargs.get(key) or ()):
            yield (*place, key, index), str(name)
    yield from _condition_columns(kwargs.get("row_condition"), (*place, "row_condition"))


def _condition_columns(condition: Any, place: Place) -> Iterator[tuple[Place, str]]:
    if not isinstance(condition, dict):
        return
    column = condition.get("column")
    if isinstance(column, dict) and isinstance(column.get("name"), str):
        yield (*place, "column", "name"), column["name"]
    for index, part in enumerate(condition.get("conditions") or ()):
        yield from _condition_columns(part, (*place, "conditions", index))


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
