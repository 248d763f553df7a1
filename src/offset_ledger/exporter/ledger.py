"""What a scrape reads from one ledger, in one short read-only transaction."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from offset_ledger.errors import OffsetLedgerError, one_line
from offset_ledger.exporter.reading import LedgerReading, Row
from offset_ledger.ledger.database import Cursor, named_sql
from offset_ledger.ledger.retired_topics import retirements
from offset_ledger.page import queries
from offset_ledger.page.queries import COUNTED

log = logging.getLogger(__name__)
SESSION = "offset-ledger exporter"


def read_ledger(conn_id: str, names: Sequence[str]) -> LedgerReading:
    """Everything about these pipelines; a ledger that is away, or not migrated, is a reading with a problem."""
    try:
        with queries.reading(conn_id, SESSION) as cursor:
            return LedgerReading(
                queries.pipelines(cursor, names),
                queries.partitions(cursor, names),
                _by_pipeline(_rows(cursor, "pipelines", names)),
                {name: _offsets(row) for name, row in _by_pipeline(_rows(cursor, "offsets", names)).items()},
                _findings(_rows(cursor, "findings", names)),
                retirements(cursor, names),
            )
    except OffsetLedgerError as error:
        log.warning("the ledger of connection %r cannot be read: %s", conn_id, error)
        return LedgerReading(problem=str(error))
    except Exception as error:  # noqa: BLE001 - whatever it is, the scrape has the rest
        log.warning("reading the ledger of connection %r failed: %s", conn_id, one_line(error))
        return LedgerReading(problem=type(error).__name__)


def _rows(cursor: Cursor, name: str, names: Sequence[str]) -> list[Row]:
    cursor.execute(named_sql(f"exporter/{name}"), {"pipelines": list(names), "limit": COUNTED})
    return [dict(row) for row in cursor.fetchall()]


def _by_pipeline(rows: Sequence[Row]) -> dict[str, Row]:
    return {row["pipeline"]: row for row in rows}


def _offsets(row: Row) -> dict[str, int]:
    return {name: value for name, value in row.items() if name != "pipeline"}


def _findings(rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for row in rows:
        counts.setdefault(row["pipeline"], {})[row["severity"]] = row["findings"]
    return counts
