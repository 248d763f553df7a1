"""Dismiss quarantined records that will never become rows, with a reason; or undo that."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from offset_ledger.config.model import Pipeline
from offset_ledger.errors import ConfigurationError, StateConflict
from offset_ledger.ledger import dismissals, pipelines
from offset_ledger.ledger.database import transaction
from offset_ledger.ledger.dismissals import QuarantinePosition, Selection
from offset_ledger.ledger.open import open_ledger
from offset_ledger.model.batch import Origin
from offset_ledger.operations.redrive import in_open_batches
from offset_ledger.units import counted


@dataclass(frozen=True, slots=True)
class Dismissed:
    """The decision, its records and a line about them; no decision if no record was selected."""

    dismissal_id: int | None
    records: tuple[QuarantinePosition, ...]
    message: str


def dismiss(pipeline: Pipeline, selection: Selection, origin: Origin, why: str, undo: bool = False) -> Dismissed:
    """Dismiss the selected unresolved records, or with ``undo`` restore dismissed ones: all of them or none.

    Raises:
        ConfigurationError: nothing was selected by offsets or by reason, or no reason why was given.
        StateConflict: an offset is not such a record, or an open redrive has one.
    """
    _check(selection, why)
    with open_ledger(pipeline) as session, transaction(session) as cursor:
        pipelines.lock_pipeline(cursor, pipeline.name)
        chosen = dismissals.choose(cursor, pipeline.name, selection, undo)
        positions = tuple((row["partition"], row["offset"]) for row in chosen)
        _check_complete(pipeline, selection, positions, undo)
        _check_not_redriven(pipeline, Counter(row["held_by"] for row in chosen if row["held_by"] is not None))
        ids = [row["quarantine_id"] for row in chosen]
        decision = dismissals.decide(cursor, pipeline.name, ids, undo, origin, why) if ids else None
    what = "unresolved again" if undo else "dismissed"
    return Dismissed(decision, positions, f"{counted(len(positions), 'record')} of {pipeline.name} {what}")


def _check(selection: Selection, why: str) -> None:
    if (selection.partition is None) != (selection.offsets is None):
        raise ConfigurationError("partition and offset name a record together; give both, or a reason code")
    if selection.offsets is None and selection.reason is None:
        raise ConfigurationError("which records? give partition and offset, or a reason code, as quarantine shows them")
    if not why.strip():
        raise ConfigurationError("why is empty; it is kept with the decision")


def _check_complete(
    pipeline: Pipeline, selection: Selection, positions: tuple[QuarantinePosition, ...], undo: bool
) -> None:
    if missing := sorted({*(selection.offsets or ())} - {offset for _, offset in positions}):
        state = "dismissed" if undo else "unresolved"
        raise StateConflict(
            f"pipeline {pipeline.name} partition {selection.partition}: no {state} record in quarantine at offset "
            f"{', '.join(map(str, missing))}; nothing was changed; see: offset-ledger quarantine {pipeline.name}"
        )


def _check_not_redriven(pipeline: Pipeline, held: Counter[int]) -> None:
    if held:
        raise StateConflict(
            f"pipeline {pipeline.name}: records are being redriven: {in_open_batches(held)}; nothing was "
            "changed; let that redrive commit, or abandon the batch"
        )
