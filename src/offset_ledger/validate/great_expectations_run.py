"""One run of Great Expectations over the staged rows of one table, on a session of its own."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg2
import psycopg2.extensions
from psycopg2 import sql

from offset_ledger.errors import DatabaseUnavailable, one_line
from offset_ledger.ledger.database import named_sql
from offset_ledger.ledger.sessions import Arguments, open_session
from offset_ledger.ledger.sqlstates import meaning_in
from offset_ledger.validate import expectations as gx
from offset_ledger.validate.failing_rows import as_sql, exact_queries, repeated
from offset_ledger.validate.suite import Suite, SuiteAction

if TYPE_CHECKING:
    from great_expectations.datasource.fluent.interfaces import Batch
    from great_expectations.datasource.fluent.postgres_datasource import PostgresDatasource
    from great_expectations.expectations.expectation import Expectation

Session = psycopg2.extensions.connection

VIEW = "staged"
INDEX = ("_partition", "_offset")
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
    """Great Expectations' result as JSON, and for each failed quarantine expectation the query of its rows."""

    version: str
    result: Mapping[str, Any]
    by_position: Mapping[int, Mapping[str, Any]]
    failing_rows: Mapping[int, str]


def live_rows(session: Session, schema: str, table: str) -> str:
    """The query of the rows that are judged: all but the delete markers, whose columns are NULL."""
    return sql.SQL(named_sql("validate/live_rows")).format(staging=sql.Identifier(schema, table)).as_string(session)


def validate(suite: Suite, arguments: Arguments, live: str) -> Validation:
    """Run the suite over the rows that the query ``live`` selects.

    Raises:
        DatabaseUnavailable: the session was lost on the way; that says nothing about the rows.
    """
    package = gx.load()
    with _quiet(), exact_queries(), _batch(arguments, live) as (source, batch):
        expectations = [
            gx.build({**found.configuration, "meta": {**found.configuration["meta"], _POSITION: position}})
            for position, found in enumerate(suite.expectations)
        ]
        run = package.ExpectationSuite(name=suite.name, expectations=[each.configuration for each in expectations])
        # NaN and Infinity are not JSON: they become text.
        raw = json.dumps(batch.validate(run, result_format=_RESULT_FORMAT).to_json_dict(), default=_plain)
        result = json.loads(raw, parse_constant=str)
        by_position = {each["expectation_config"]["meta"][_POSITION]: each for each in result["results"]}
        _raise_if_lost(by_position)
        failing = {
            position: _failing_rows(source, expectations[position], each, live)
            for position, each in by_position.items()
            if suite.expectations[position].action is SuiteAction.QUARANTINE and _has_failing_rows(each)
        }
    return Validation(package.__version__, result, by_position, failing)


def _plain(value: Any) -> Any:
    """What JSON has for a value that it does not know: some results are numpy's, and False as text would be true."""
    return value.item() if hasattr(value, "item") else str(value)


@contextmanager
def _quiet() -> Iterator[None]:
    """Its log repeats what the result says; the result is what we report."""
    logger = logging.getLogger("great_expectations")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def _batch(arguments: Arguments, live: str) -> Iterator[tuple[PostgresDatasource, Batch]]:
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )
    from great_expectations.datasource.fluent.interfaces import TestConnectionError
    from sqlalchemy.exc import InterfaceError, OperationalError

    config = DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(),
        progress_bars=ProgressBarsConfig(globally=False),
        analytics_enabled=False,
    )
    context = gx.load().get_context(mode="ephemeral", project_config=config)
    sessions: list[Session] = []

    def create() -> Session:
        sessions.append(_session(arguments, live))
        return sessions[-1]

    try:
        # The creator connects: no password, and no `$` that would be substituted, passes through a configuration.
        source = context.data_sources.add_postgres(
            "staging",
            connection_string="postgresql+psycopg2://ledger@localhost/ledger",
            create_temp_table=False,
            kwargs={"creator": create},
        )
        asset = source.add_table_asset(VIEW, table_name=VIEW)
        yield source, asset.add_batch_definition_whole_table(VIEW).get_batch()
    except (TestConnectionError, OperationalError, InterfaceError) as error:
        raise DatabaseUnavailable(f"Great Expectations could not read the staged rows ({one_line(error)})") from error
    finally:
        for session in sessions:
            _end(session)


def _session(arguments: Arguments, live: str) -> Session:
    """A read-only session in which the live rows are the view that Great Expectations judges.

    A temporary view, and no query asset: for a query asset the failing-row queries of Great Expectations 1.24 are not
    SQL, its column type checks raise, and it takes three times as long.
    """
    session = open_session(arguments)
    with session, session.cursor() as cursor:
        cursor.execute(named_sql("validate/create_view").format(view=VIEW, rows=live))
        cursor.execute(named_sql("validate/find_view_first"))
        cursor.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
    return session


def _end(session: Session) -> None:
    """Close a session and its view. The server ends a closed session in its own time, and until then the view, which
    depends on the staging table, would keep that from being dropped."""
    # A lost session has no view any more.
    with closing(session), suppress(psycopg2.OperationalError, psycopg2.InterfaceError):
        session.rollback()
        with session, session.cursor() as cursor:
            cursor.execute("SET TRANSACTION READ WRITE")
            cursor.execute(named_sql("validate/drop_view").format(view=VIEW))


def _raise_if_lost(results: Mapping[int, Mapping[str, Any]]) -> None:
    for each in results.values():
        info = each["exception_info"]
        if any(lost in str(info) for lost in _LOST_SESSION):
            known = meaning_in(str(info))
            if known and known.kind is not DatabaseUnavailable:
                raise known.kind(f"Great Expectations {known.text} ({exception_of(each)}); no verdict; {known.advice}")
            raise DatabaseUnavailable(f"Great Expectations lost its session ({exception_of(each)}); judge again")


def exception_of(result: Mapping[str, Any]) -> str | None:
    """The message of an exception inside Great Expectations, in one line."""
    info = result["exception_info"]
    # One exception lies flat; several, one for each metric, lie under their metrics' names.
    found = [info] if "raised_exception" in info else list(info.values())
    messages = [one_line(each["exception_message"]) for each in found if each["raised_exception"]]
    return "; ".join(dict.fromkeys(messages)) if messages else None


def _has_failing_rows(result: Mapping[str, Any]) -> bool:
    return not result["success"] and bool(result["result"].get("unexpected_index_query"))


def _failing_rows(source: PostgresDatasource, expectation: Expectation, result: Mapping[str, Any], live: str) -> str:
    """``_partition, _offset`` of the failing rows, as SQL that stands alone.

    Great Expectations leaves row_condition and ignore_row_if out of its own query. Here each step reads FROM the name
    of the view, so a CTE of that name puts the live rows, and then the domain of the expectation, under its query.
    """
    if expectation.expectation_type == "expect_compound_columns_to_be_unique":
        columns = result["expectation_config"]["kwargs"]["column_list"]
        query = as_sql(source.get_execution_engine(), repeated(VIEW, INDEX, columns))
    else:
        query = result["result"]["unexpected_index_query"].rstrip("; \n")
    # By position: a judged column that is an index column too is selected twice.
    failing = named_sql("validate/coordinates").format(query=query)
    return _over(_over(live, _domain(source, expectation, result)), failing)


def _over(rows: str, query: str) -> str:
    return named_sql("validate/query_over").format(view=VIEW, rows=rows, query=query)


def _domain(source: PostgresDatasource, expectation: Expectation, result: Mapping[str, Any]) -> str:
    from sqlalchemy import Select, select, text

    domain = dict(result["expectation_config"]["kwargs"])
    # The result leaves defaults out, and this one's is to ignore rows.
    ignore_row_if = getattr(expectation, "ignore_row_if", None)
    if ignore_row_if is not None:
        domain["ignore_row_if"] = ignore_row_if
    engine = source.get_execution_engine()
    records = engine.get_domain_records(domain)
    statement = records if isinstance(records, Select) else select(text("*")).select_from(records)
    return as_sql(engine, statement)
