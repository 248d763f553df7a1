"""The tables of pipelines as sources of a dbt project: descriptions, freshness and tests, from file and suite."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from offset_ledger.pipeline_file.pipeline import Pipeline, in_sql
from offset_ledger.postgres.ledger.staging import catalog_type
from offset_ledger.postgres.table.fit import has_markers, target_columns
from offset_ledger.steps.validate.step import read_suite
from offset_ledger.steps.validate.suite import SuiteAction

_OWN = {
    "publish_at": "When the event was published",
    "_deleted": "The event is deleted, and the declared columns are null",
    "_batch_id": "The batch that wrote the row",
}


def dbt_sources(pipelines: Iterable[Pipeline]) -> dict[str, Any]:
    """Return the document of a sources.yml, with a source for each schema; raises as read_suite()."""
    tables = defaultdict[str, list[dict[str, Any]]](list)
    for pipeline in pipelines:
        tables[pipeline.target.schema] += _tables(pipeline)
    return {"version": 2, "sources": [{"name": name, "tables": each} for name, each in sorted(tables.items())]}


def _tables(pipeline: Pipeline) -> Iterator[dict[str, Any]]:
    """The table, and its view, which has no tests: its rows are among those of the table."""
    target, columns = pipeline.target, list(_columns(pipeline))
    config: dict[str, Any] = {"meta": {"pipeline": pipeline.name, "owner": pipeline.owner}}
    longest, loaded_at = pipeline.runs_every, target.name_of("_timestamp")
    if longest and loaded_at:
        minutes = int((longest + (pipeline.freshness or longest)).total_seconds() / 60)
        freshness = {"warn_after": {"count": minutes, "period": "minute"}}
        config |= {"loaded_at_field": loaded_at, "freshness": freshness}
    kinds = dict(target_columns(pipeline))
    own = target.copied if target.beside else [(name, name) for name in ("_deleted", "_batch_id") if name in kinds]
    kept = [_column(name, catalog_type(kinds[name]), _OWN.get(copied, "")) for copied, name in own]
    described = {"description": pipeline.description} if pipeline.description else {}
    yield {"name": target.table, **described, "config": config, "columns": [*columns, *kept]}
    if target.view:
        shown = [{key: each[key] for key in each if key != "data_tests"} for each in columns if each["name"][0] != "_"]
        yield {"name": target.view, **described, "columns": shown}


def _columns(pipeline: Pipeline) -> Iterator[dict[str, Any]]:
    key = pipeline.record.key_columns
    alone = ("unique",) if len(key) == 1 else ()
    for column in key:
        description = column.description or "What identifies the event: one row for each"
        yield _column(column.name, column.type.sql, description, *alone, "not_null")
    if not pipeline.target.beside:
        yield _column("publish_at", "timestamp with time zone", _OWN["publish_at"], "not_null")
    where = {"where": "not _deleted"} if has_markers(pipeline) else {}
    accepted = list(_accepted_values(pipeline, where))
    for column in pipeline.record.columns:
        tests = [] if column.nullable else [{"not_null": {"config": {**where}}} if where else "not_null"]
        tests += [test for name, test in accepted if name == column.name]
        yield _column(column.name, column.type.sql, column.description, *tests)


def _column(name: str, kind: str, description: str, *tests: Any) -> dict[str, Any]:
    column = {
        "name": name,
        "quote": in_sql(name) != name,
        "description": description,
        "data_type": kind,
        "data_tests": [*tests],
    }
    return {key: value for key, value in column.items() if value}


def _accepted_values(pipeline: Pipeline, config: dict[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each set of the suite as a test of its column; one that lets rows pass into the table only warns."""
    suite = read_suite(pipeline)
    for each in suite.expectations if suite else ():
        kwargs = each.configuration["kwargs"]
        always = kwargs.get("mostly", 1) == 1 and not kwargs.get("row_condition")
        if each.type == "expect_column_values_to_be_in_set" and always:
            severity = "error" if each.action is SuiteAction.QUARANTINE else "warn"
            values = list(kwargs["value_set"])
            arguments = {"values": values, "quote": all(isinstance(value, str) for value in values)}
            test = {"arguments": arguments, "config": {**config, "severity": severity}}
            yield kwargs["column"], {"accepted_values": test}
