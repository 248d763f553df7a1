"""COPY of decoded records: binary where its encoder is installed, CSV where there is none for the machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec

import psycopg2
import pyarrow as pa
from psycopg2 import sql

from offset_ledger.config.model import RecordShape
from offset_ledger.decoding.arrow import with_too_large
from offset_ledger.errors import one_line
from offset_ledger.ledger.copy_into import CopyFormat, copy_into
from offset_ledger.ledger.database import Cursor, savepoint
from offset_ledger.ledger.sqlstates import is_of_size
from offset_ledger.ledger.staging import refused_types, row_types
from offset_ledger.stage.csv_copy import copy_csv

BINARY = find_spec("pgpq") is not None


def copy_rows(cursor: Cursor, table: sql.Identifier, types: Mapping[str, str], rows: pa.Table) -> None:
    """COPY the rows into a table whose columns have these Postgres types."""
    if rows.num_rows:
        copy_into(cursor, table, rows.column_names, *copy_form(types, rows))


def copy_decoded(
    cursor: Cursor,
    into: tuple[sql.Identifier, sql.Identifier],
    record: RecordShape,
    rows: pa.Table,
    refusals: pa.Table,
) -> pa.Table:
    """COPY rows and refusals, and a row that Postgres cannot hold as a refusal; gives all that were refused."""
    if too_large := _copy_fitting(cursor, into[0], row_types(record), rows):
        refusals = with_too_large(refusals, too_large)
    copy_rows(cursor, into[1], refused_types(record), refusals)
    return refusals


def _copy_fitting(
    cursor: Cursor, table: sql.Identifier, types: Mapping[str, str], rows: pa.Table
) -> list[tuple[pa.Table, str]]:
    """COPY those of the rows that Postgres can hold; gives each other one, and what Postgres says of its size."""
    try:
        with savepoint(cursor):
            copy_rows(cursor, table, types, rows)
        return []
    except psycopg2.Error as error:
        if not is_of_size(error, rows.nbytes):
            raise
        message = one_line(error.diag.message_primary)
    if rows.num_rows == 1:
        return [(rows, message)]
    half = rows.num_rows // 2
    parts = rows.slice(0, half), rows.slice(half)
    return [each for part in parts for each in _copy_fitting(cursor, table, types, part)]


def copy_form(types: Mapping[str, str], rows: pa.Table, binary: bool = BINARY) -> tuple[CopyFormat, Iterator[bytes]]:
    """The format that COPY is told, and the rows in it."""
    if not binary:
        return "csv", copy_csv(rows)
    from offset_ledger.stage.binary_copy import copy_binary

    return "binary", copy_binary(types, rows)
