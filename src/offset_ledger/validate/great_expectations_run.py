"""One run of a suite by Great Expectations over the staged rows of one table."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from offset_ledger.errors import DatabaseUnavailable
from offset_ledger.ledger.sessions import Arguments
from offset_ledger.ledger.sqlstates import meaning_in
from offset_ledger.validate import expectations as gx
from offset_ledger.validate.failing_rows import INDEX, exact_queries, failing_rows
from offset_ledger.validate.staged_view import open_batch
from offset_ledger.validate.suite import Suite, SuiteAction

if TYPE_CHECKING:
    from great_expectations.datasource.fluent.interfaces import Batch
    from great_expectations.expectations.expectation import Expectation

_POSITION = "offset_ledger_position"

# BASIC counts and names no values: with 0 samples its queries for them are LIMIT 0, and no row comes to Python.
_RESULT_FORMAT = {
    "result_format": "BASIC",
    "partial_unexpected_count": 0,
    "unexpected_index_column_names": list(INDEX),
    "return_unexpected_index_query": True,
}
_LOST_SESSION = ("sqlalchemy.exc.OperationalError", "sqlalchemy.exc.InterfaceError")


@dataclass(frozen=True, slots=True)
class Validation:
    """Great Expectations' result as JSON; both mappings go by the position of the expectation in the suite.

    ``failing_rows`` has the query of the failing rows of each failed quarantine expectation.
    """

    version: str
    result: Mapping[str, Any]
    by_position: Mapping[int, Mapping[str, Any]]
    failing_rows: Mapping[int, str]


def run_suite(suite: Suite, arguments: Arguments, live: str) -> Validation:
    """Run the suite over the rows that the query ``live`` selects.

    Raises:
        DatabaseUnavailable: the session was lost on the way; that says nothing about the rows.
    """
    version = gx.load().__version__
    with _quiet(), exact_queries(), open_batch(arguments, live) as (source, batch):
        expectations = _expectations(suite)
        result = _result(batch, suite.name, expectations)
        by_position = {each["expectation_config"]["meta"][_POSITION]: each for each in result["results"]}
        _raise_if_lost(by_position)
        failing = {
            position: failing_rows(source, expectations[position], each, live)
            for position, each in by_position.items()
            if suite.expectations[position].action is SuiteAction.QUARANTINE and _has_failing_rows(each)
        }
    return Validation(version, result, by_position, failing)


def exception_of(result: Mapping[str, Any]) -> str | None:
    """The message of an exception inside Great Expectations, in one line."""
    info = result["exception_info"]
    # One exception is the info itself; several, one for each metric, are under the names of their metrics.
    exceptions = [info] if "raised_exception" in info else list(info.values())
    messages = [_line(each["exception_message"]) for each in exceptions if each["raised_exception"]]
    return "; ".join(dict.fromkeys(messages)) if messages else None


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the log of Great Expectations, which repeats what the result says."""
    logger = logging.getLogger("great_expectations")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _expectations(suite: Suite) -> list[Expectation]:
    """The expectations of the suite, each with its position, by which its result is recognised."""
    return [
        gx.build({**entry.configuration, "meta": {**entry.configuration["meta"], _POSITION: position}})
        for position, entry in enumerate(suite.expectations)
    ]


def _result(batch: Batch, name: str, expectations: list[Expectation]) -> dict[str, Any]:
    suite = gx.load().ExpectationSuite(name=name, expectations=[each.configuration for each in expectations])
    # NaN and Infinity are not JSON: they become text.
    raw = json.dumps(batch.validate(suite, result_format=_RESULT_FORMAT).to_json_dict(), default=_plain)
    result: dict[str, Any] = json.loads(raw, parse_constant=str)
    return result


def _plain(value: Any) -> Any:
    """A value as JSON has it: some results are numpy's, and False as text would be true."""
    return value.item() if hasattr(value, "item") else str(value)


def _raise_if_lost(results: Mapping[int, Mapping[str, Any]]) -> None:
    for each in results.values():
        info = str(each["exception_info"])
        if any(error in info for error in _LOST_SESSION):
            known = meaning_in(info)
            if known and known.kind is not DatabaseUnavailable:
                raise known.kind(f"Great Expectations {known.text} ({exception_of(each)}); no verdict; {known.advice}")
            raise DatabaseUnavailable(f"Great Expectations lost its session ({exception_of(each)}); validate again")


def _line(message: object) -> str:
    return " ".join(str(message).split())[:300]


def _has_failing_rows(result: Mapping[str, Any]) -> bool:
    return not result["success"] and bool(result["result"].get("unexpected_index_query"))
