"""COPY into a table, of rows that come in pieces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from psycopg2 import errors as pg
from psycopg2 import sql

from offset_ledger.ledger.database import Cursor

CopyFormat = Literal["binary", "csv"]
PIECE_BYTES = 1 << 20  # about as much as COPY is sent at a time


class _Pieces:
    """Pieces of a COPY as the file that psycopg2 reads; it takes them at any size."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = filter(None, pieces)
        self.error: Exception | None = None

    def read(self, _size: int = -1, /) -> bytes:
        try:
            return next(self._pieces, b"")
        except Exception as error:
            self.error = error
            raise


def copy_into(
    cursor: Cursor, table: sql.Identifier, columns: Sequence[str], form: CopyFormat, pieces: Iterable[bytes]
) -> None:
    """COPY rows into a table; what the iteration over their pieces raises is raised."""
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT {})").format(table, names, sql.SQL(form))
    file = _Pieces(pieces)
    try:
        cursor.copy_expert(statement, file)  # type: ignore[arg-type]  # lines are never asked for
    except pg.QueryCanceled as canceled:  # as psycopg2 says that the file raised
        raise file.error or canceled from None
