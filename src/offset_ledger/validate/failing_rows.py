"""Queries of failing rows as SQL that stands alone, where Great Expectations 1.24 does not write them right.

It writes the values of a rule into its query with Python's ``repr()``: an apostrophe makes a column name of the value,
and a backslash is doubled. And its query for compound columns names the index columns twice, which is no SQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlalchemy import Select

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

    written = getattr(theirs, _WRITER)
    setattr(theirs, _WRITER, as_sql)
    try:
        yield
    finally:
        setattr(theirs, _WRITER, written)


def repeated(rows: str, index: Sequence[str], columns: Sequence[str]) -> Select[Any]:
    """The index columns of the rows whose values in ``columns``, none of them NULL, stand in another row too."""
    from sqlalchemy import column, func, select, table, tuple_

    named: list[Any] = [column(name) for name in columns]
    places: list[Any] = [column(name) for name in index]
    twice = select(*named).select_from(table(rows)).group_by(*named).having(func.count() > 1)
    return select(*places).select_from(table(rows)).where(tuple_(*named).in_(twice))
