"""One run of a suite by Great Expectations over the staged rows of one table, with its queries of failing rows.

Great Expectations 1.24 writes some of these queries wrong, and they are corrected here. It writes the values of an
expectation with Python's ``repr()``: an apostrophe turns the value into a column name, and a backslash is doubled. Its
query for compound columns names the index columns twice, which is not valid SQL. And it leaves row_condition and
ignore_row_if out.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg2
from psycopg2 import sql

from offset_ledger.errors import DatabaseUnavailable, one_line
from offset_ledger.postgres.ledger.database import named_sql, transaction
from offset_ledger.postgres.ledger.sessions import Arguments, Session, open_session
from offset_ledger.postgres.ledger.sqlstates import meaning_in
from offset_ledger.steps.validate import expectations as gx
from offset_ledger.steps.validate.suite import Suite, SuiteAction

if TYPE_CHECKING:
    from great_expectations.datasource.fluent.interfaces import Batch
    from great_expectations.datasource.fluent.postgres_datasource import PostgresDatasource
    from great_expectations.expectations.expectation import Expectation
    from sqlalchemy import Select

VIEW = "staged"


def live_rows(session: Session, schema: str, table: str, errors: Sequence[str] = ()) -> str:
    """The query of the rows to validate: neither delete markers, whose columns are NULL, nor rows with an error."""
    staging, also = sql.Identifier(schema, table), [sql.SQL(f" AND {error} IS NULL") for error in errors]
    return sql.SQL(named_sql("validate/live_rows")).format(staging=staging, also=sql.Composed(also)).as_string(session)


@contextmanager
def open_batch(arguments: Arguments, live: str) -> Iterator[tuple[PostgresDatasource, Batch]]:
    """A Great Expectations datasource whose batch is the rows that the query ``live`` selects.

    Raises:
        DatabaseUnavailable: the rows could not be read.
    """
    from great_expectations.data_context.types import base
    from great_expectations.datasource.fluent.interfaces import TestConnectionError
    from sqlalchemy.exc import InterfaceError, OperationalError

    sessions: list[Session] = []

    def connect() -> Session:
        """Open a read-only session with the live rows as the view that Great Expectations validates.

        A temporary view, and no query asset: for a query asset the failing-row queries of Great Expectations 1.24 are
        not SQL, its column type checks raise, and it takes three times as long.
        """
        session = open_session(arguments)
        with transaction(session) as cursor:
            cursor.execute(named_sql("validate/create_view").format(view=VIEW, rows=live))
            cursor.execute(named_sql("validate/find_view_first"))
        session.set_session(isolation_level="READ COMMITTED", readonly=True)
        sessions.append(session)
        return session

    config = base.DataContextConfig(
        store_backend_defaults=base.InMemoryStoreBackendDefaults(),
        progress_bars=base.ProgressBarsConfig(globally=False),
        analytics_enabled=False,
    )
    try:
        context = gx.load().get_context(mode="ephemeral", project_config=config)
        # The creator connects: no password, and no `$` that would be substituted, passes through a configuration.
        source = context.data_sources.add_postgres(
            "staging",
            connection_string="postgresql+psycopg2://ledger@localhost/ledger",
            create_temp_table=False,
            kwargs={"creator": connect},
        )
        asset = source.add_table_asset(VIEW, table_name=VIEW)
        yield source, asset.add_batch_definition_whole_table(VIEW).get_batch()
    except (TestConnectionError, OperationalError, InterfaceError) as error:
        raise DatabaseUnavailable(f"Great Expectations could not read the staged rows ({one_line(error)})") from error
    finally:
        for session in sessions:
            _close(session)


def _close(session: Session) -> None:
    """Drop the view, then close the session.

    The server ends a closed session in its own time, and until then the view would keep the staging table from being
    dropped. A session that was lost has no view any more.
    """
    with closing(session), suppress(psycopg2.OperationalError, psycopg2.InterfaceError):
        session.rollback()
        session.set_session(isolation_level="default", readonly="default")
        with transaction(session) as cursor:
            cursor.execute(named_sql("validate/drop_view").format(view=VIEW))


INDEX = ("_partition", "_offset")
_WRITER = "sqlalchemy_select_to_sql_string"


def as_sql(engine: Any, select_statement: Select[Any]) -> str:
    """The statement with its values in it, for the database of that Great Expectations execution engine."""
    compiled = select_statement.compile(engine.engine, compile_kwargs={"literal_binds": True})
    # Text for psycopg2 has every percent sign twice.
    return str(compiled).replace("%%", "%")


@contextmanager
def exact_queries() -> Iterator[None]:
    """Inside, Great Expectations writes its queries of the failing rows with :func:`as_sql`.

    Nor does it log, which would repeat what the result says.
    """
    from great_expectations.expectations.metrics.map_metric_provider import map_condition_auxilliary_methods as theirs

    logger = logging.getLogger("great_expectations")
    original, level = getattr(theirs, _WRITER), logger.level
    setattr(theirs, _WRITER, as_sql)
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        setattr(theirs, _WRITER, original)
        logger.setLevel(level)


def failing_rows(source: PostgresDatasource, expectation: Expectation, result: Mapping[str, Any], live: str) -> str:
    """``_partition, _offset`` of the rows that fail an expectation, as SQL that can run on its own.

    Each query reads FROM the name of the view, so a CTE of that name puts the live rows, and then the rows that the
    expectation applies to, under the query.
    """
    from sqlalchemy import Select, select, text

    engine, arguments = source.get_execution_engine(), dict(result["expectation_config"]["kwargs"])
    if expectation.expectation_type == "expect_compound_columns_to_be_unique":
        query = as_sql(engine, repeated(VIEW, INDEX, arguments["column_list"]))
    else:
        query = result["result"]["unexpected_index_query"].rstrip("; \n")
    # By position: an index column that the expectation names too is selected twice.
    failing = named_sql("validate/coordinates").format(query=query)
    # The result leaves out arguments with their default, and the default of this one ignores rows.
    if (ignore_row_if := getattr(expectation, "ignore_row_if", None)) is not None:
        arguments["ignore_row_if"] = ignore_row_if
    records = engine.get_domain_records(arguments)
    domain = records if isinstance(records, Select) else select(text("*")).select_from(records)
    return _over(_over(live, as_sql(engine, domain)), failing)


def repeated(rows: str, index: Sequence[str], columns: Sequence[str]) -> Select[Any]:
    """Return the index columns of rows whose values in ``columns``, none of them NULL, occur in another row too."""
    from sqlalchemy import column, func, select, table, tuple_

    values: list[Any] = [column(name) for name in columns]
    keys: list[Any] = [column(name) for name in index]
    duplicates = select(*values).select_from(table(rows)).group_by(*values).having(func.count() > 1)
    return select(*keys).select_from(table(rows)).where(tuple_(*values).in_(duplicates))


def _over(rows: str, query: str) -> str:
    return named_sql("validate/query_over").format(view=VIEW, rows=rows, query=query)


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
    with exact_queries(), open_batch(arguments, live) as (source, batch):
        # Each has its position, by which its result is recognised.
        expectations = [
            gx.build({**entry.configuration, "meta": {**entry.configuration["meta"], _POSITION: position}})
            for position, entry in enumerate(suite.expectations)
        ]
        configurations = [each.configuration for each in expectations]
        theirs = gx.load().ExpectationSuite(name=suite.name, expectations=configurations)
        written = batch.validate(theirs, result_format=_RESULT_FORMAT).to_json_dict()
        # Some results are numpy's, and False as text would be true; NaN and Infinity are not JSON: they become text.
        raw = json.dumps(written, default=lambda value: value.item() if hasattr(value, "item") else str(value))
        result = json.loads(raw, parse_constant=str)
        by_position = {each["expectation_config"]["meta"][_POSITION]: each for each in result["results"]}
        for each in result["results"]:
            info = str(each["exception_info"])
            if any(error in info for error in _LOST_SESSION):
                text, known = exception_of(each), meaning_in(info)
                if known and known.kind is not DatabaseUnavailable:
                    raise known.kind(f"Great Expectations {known.text} ({text}); no verdict; {known.advice}")
                raise DatabaseUnavailable(f"Great Expectations lost its session ({text}); validate again")
        failing = {
            position: failing_rows(source, expectations[position], each, live)
            for position, each in by_position.items()
            if suite.expectations[position].action is SuiteAction.QUARANTINE
            and not each["success"]
            and each["result"].get("unexpected_index_query")
        }
    return Validation(version, result, by_position, failing)


def exception_of(result: Mapping[str, Any]) -> str | None:
    """The message of an exception inside Great Expectations, in one line."""
    info = result["exception_info"]
    # One exception is the info itself; several, one for each metric, are under the names of their metrics.
    exceptions = [info] if "raised_exception" in info else list(info.values())
    messages = [one_line(each["exception_message"]) for each in exceptions if each["raised_exception"]]
    return "; ".join(dict.fromkeys(messages)) if messages else None
