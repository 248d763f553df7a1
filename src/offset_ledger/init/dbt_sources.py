"""The tables of pipelines as sources of a dbt project: descriptions, freshness and tests, from file and suite."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from typing import Any

from offset_ledger.config.model import Pipeline
from offset_ledger.validate.step import read_suite
from offset_ledger.validate.suite import SuiteAction

_OWN = {
    "_deleted": ("boolean", "The event is deleted, and the declared columns are null"),
    "_batch_id": ("bigint", "The batch that wrote the row"),
}
_QUARTERLY = {"@quarterly": "0 0 1 */3 *"}  # a preset that only Airflow knows


def dbt_sources(pipelines: Iterable[Pipeline]) -> dict[str, Any]:
    """Return the document of a sources.yml, with a source for each schema.

    Raises:
        ConfigurationError: a suite is missing or has mistakes.
    """
    tables = defaultdict[str, list[dict[str, Any]]](list)
    for pipeline in pipelines:
        tables[pipeline.target.schema] += _tables(pipeline)
    return {"version": 2, "sources": [{"name": name, "tables": each} for name, each in sorted(tables.items())]}


def _tables(pipeline: Pipeline) -> Iterator[dict[str, Any]]:
    """The table, and its view, which has no tests: its rows are among those of the table."""
    target, columns = pipeline.target, list(_columns(pipeline))
    config: dict[str, Any] = {"meta": {"pipeline": pipeline.name, "owner": pipeline.owner}}
    if pipeline.schedule:
        pause = _longest_pause(pipeline.schedule)
        minutes = int((pause + (pipeline.freshness or pause)).total_seconds() / 60)
        freshness = {"warn_after": {"count": minutes, "period": "minute"}}
        config |= {"loaded_at_field": "_timestamp", "freshness": freshness}
    described = {"description": pipeline.description} if pipeline.description else {}
    own = [{"name": name, "description": text, "data_type": kind} for name, (kind, text) in _OWN.items()]
    yield {"name": target.table, **described, "config": config, "columns": [*columns, *own]}
    if target.view:
        shown = [{k: v for k, v in each.items() if k != "data_tests"} for each in columns if each["name"][0] != "_"]
        yield {"name": target.view, **described, "columns": shown}


def _longest_pause(schedule: str) -> timedelta:
    """Return the longest time between two runs, of a thousand."""
    from croniter import croniter

    runs = croniter(_QUARTERLY.get(schedule, schedule), datetime(2026, 1, 1, tzinfo=UTC)).all_next(datetime)
    longest: timedelta = max(later - earlier for earlier, later in pairwise(islice(runs, 1000)))
    return longest


def _columns(pipeline: Pipeline) -> Iterator[dict[str, Any]]:
    sets = _allowed_values(pipeline)
    yield {
        "name": "event_id",
        "description": "What identifies the event: one row for each",
        "data_type": "text",
        "data_tests": ["unique", "not_null"],
    }
    yield {
        "name": "publish_at",
        "description": "When the event was published; the newest record wins",
        "data_type": "timestamp with time zone",
        "data_tests": ["not_null"],
    }
    where = {"where": "not _deleted"} if pipeline.record.deletes else {}
    for column in pipeline.record.columns:
        tests: list[Any] = [] if column.nullable else [{"not_null": {"config": dict(where)}} if where else "not_null"]
        tests += [_accepted(values, where | severity) for values, severity in sets[column.name]]
        described = {"description": column.description} if column.description else {}
        tested = {"data_tests": tests} if tests else {}
        yield {"name": column.name, **described, "data_type": column.type.sql, **tested}


def _accepted(values: list[Any], config: dict[str, str]) -> dict[str, Any]:
    quote = {} if all(isinstance(value, str) for value in values) else {"quote": False}
    test = {"arguments": {"values": values, **quote}, **({"config": config} if config else {})}
    return {"accepted_values": test}


def _allowed_values(pipeline: Pipeline) -> defaultdict[str, list[tuple[list[Any], dict[str, str]]]]:
    """The sets of the suite by column; one that lets rows pass into the table only warns."""
    sets = defaultdict[str, list[tuple[list[Any], dict[str, str]]]](list)
    suite = read_suite(pipeline)
    for each in suite.expectations if suite else ():
        kwargs = each.configuration["kwargs"]
        conditional = kwargs.get("mostly", 1) < 1 or kwargs.get("row_condition")
        if each.type == "expect_column_values_to_be_in_set" and not conditional:
            severity = {} if each.action is SuiteAction.QUARANTINE else {"severity": "warn"}
            sets[kwargs["column"]].append((list(kwargs["value_set"]), severity))
    return sets
