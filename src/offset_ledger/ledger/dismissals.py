"""Dismissals in the ledger: what a person decides about quarantined records that will never fit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from offset_ledger.ledger.database import Cursor, named_sql
from offset_ledger.model.batch import Origin

QuarantinePosition = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which quarantined records: these offsets of a partition, or those with this reason code, quarantined since."""

    partition: int | None = None
    offsets: tuple[int, ...] | None = None
    reason: str | None = None
    since: datetime | None = None


def choose(cursor: Cursor, pipeline: str, selection: Selection, undo: bool) -> list[Any]:
    """The selected records, locked; ``held_by`` is the open redrive batch that has one. The pipeline must be locked."""
    offsets = None if selection.offsets is None else [*selection.offsets]
    wanted = {"partition": selection.partition, "offsets": offsets, "reason": selection.reason}
    asked = {**wanted, "since": selection.since, "pipeline": pipeline, "undo": undo}
    cursor.execute(named_sql("dismissals/choose"), asked)
    return cursor.fetchall()


def decide(cursor: Cursor, pipeline: str, chosen: list[int], undo: bool, origin: Origin, why: str) -> int:
    """Dismiss these records, or undo it, and return the id of the decision."""
    decided = {"pipeline": pipeline, "undone": undo, "who": origin.who, "why": why}
    cursor.execute(named_sql("dismissals/insert"), decided)
    dismissal_id = int(cursor.one()[0])
    cursor.execute(
        "INSERT INTO offset_ledger.dismissal_record (dismissal_id, quarantine_id) SELECT %s, unnest(%s::bigint[])",
        [dismissal_id, chosen],
    )
    cursor.execute(
        "UPDATE offset_ledger.quarantine SET dismissed_by = %s WHERE quarantine_id = ANY(%s)",
        [None if undo else dismissal_id, chosen],
    )
    return dismissal_id
