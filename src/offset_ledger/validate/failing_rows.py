"""Queries of failing rows as SQL that can run on its own, corrected where Great Expectations 1.24 writes them wrong.

It writes the values of an expectation into its query with Python's ``repr()``: an apostrophe turns the value into a
column name, and a backslash is doubled. Its query for compound columns names the index columns twice, which is not
valid SQL. And it leaves row_condition and ignore_row_if out of its queries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from offset_ledger.ledger.database import named_sql
from offset_ledger.validate.staged_view import VIEW

if TYPE_CHECKING:
    from great_expectations.datasource.fluent.postgres_datasource import PostgresDatasource
    from great_expectations.expectations.expectation import Expectation
    from sqlalchemy import Select

INDEX = ("_partition", "_offset")
_WRITER = "sqlalchemy_select_to_sql_string"


def as_sql(engine: Any, select_statement: Select[Any]) -> str:
    """The statement with its values in it, for the database of that Great Expectations execution engine."""
    compiled = select_statement.compile(engine.engine, compile_kwargs={"literal_binds": True})
    # Text for psycopg2 has every percent sign twice.
    return str(compiled).replace("%%", "%")


@contextmanager
def exact_queries() -> Iterator[None]:
    """Inside, Great Expectations writes its queries of the failing rows with :func:`as_sql`."""
    from great_expectations.expectations.metrics.map_metric_provider import map_condition_auxilliary_methods as theirs

    original = getattr(theirs, _WRITER)
    setattr(theirs, _WRITER, as_sql)
    try:
        yield
    finally:
        setattr(theirs, _WRITER, original)


def failing_rows(source: PostgresDatasource, expectation: Expectation, result: Mapping[str, Any], live: str) -> str:
    """``_partition, _offset`` of the rows that fail an expectation, as SQL that can run on its own.

    Each query reads FROM the name of the view, so a CTE of that name puts the live rows, and then the rows that the
    expectation applies to, under the query.
    """
    if expectation.expectation_type == "expect_compound_columns_to_be_unique":
        columns = result["expectation_config"]["kwargs"]["column_list"]
        query = as_sql(source.get_execution_engine(), repeated(VIEW, INDEX, columns))
    else:
        query = result["result"]["unexpected_index_query"].rstrip("; \n")
    # By position: an index column that the expectation names too is selected twice.
    failing = named_sql("validate/coordinates").format(query=query)
    return _over(_over(live, _domain(source, expectation, result)), failing)


def repeated(rows: str, index: Sequence[str], columns: Sequence[str]) -> Select[Any]:
    """The index columns of the rows whose values in ``columns``, none of them NULL, occur in another row too."""
    from sqlalchemy import column, func, select, table, tuple_

    values: list[Any] = [column(name) for name in columns]
    keys: list[Any] = [column(name) for name in index]
    duplicates = select(*values).select_from(table(rows)).group_by(*values).having(func.count() > 1)
    return select(*keys).select_from(table(rows)).where(tuple_(*values).in_(duplicates))


def _over(rows: str, query: str) -> str:
    return named_sql("validate/query_over").format(view=VIEW, rows=rows, query=query)


def _domain(source: PostgresDatasource, expectation: Expectation, result: Mapping[str, Any]) -> str:
    """The rows that the expectation applies to."""
    from sqlalchemy import Select, select, text

    domain = dict(result["expectation_config"]["kwargs"])
    # The result leaves out arguments with their default, and the default of this one ignores rows.
    ignore_row_if = getattr(expectation, "ignore_row_if", None)
    if ignore_row_if is not None:
        domain["ignore_row_if"] = ignore_row_if
    engine = source.get_execution_engine()
    records = engine.get_domain_records(domain)
    statement = records if isinstance(records, Select) else select(text("*")).select_from(records)
    return as_sql(engine, statement)
