"""What people decide about a batch: kept with who, when and why."""

from __future__ import annotations

from datetime import UTC, datetime

from offset_ledger.core.states import TRANSITIONS, State
from offset_ledger.errors import StateConflict
from offset_ledger.ledger import batches, staging
from offset_ledger.ledger.batches import Batch, Origin
from offset_ledger.ledger.database import Cursor, Session, transaction
from offset_ledger.ledger.staging import StagingTables


def decide(session: Session, batch_id: int, after: State, origin: Origin, why: str) -> Batch:
    """Approve (``after`` validated) a rejected batch, or abandon an open one.

    Raises:
        StateConflict: the batch is in a state that this decision does not lead out of, or what was judged is gone.
    """
    with transaction(session) as cursor:
        found = batches.read_batch(cursor, batch_id, lock=True)
        wrong = found.state is not State.REJECTED if after is State.VALIDATED else after not in TRANSITIONS[found.state]
        if wrong:
            verb = "approved; only a rejected one can" if after is State.VALIDATED else "abandoned; it has ended"
            raise StateConflict(f"{found} cannot be {verb}")
        if after is State.VALIDATED:
            _hold_staging(cursor, found)
        ended = {"ended_at": datetime.now(UTC)} if after is State.ABANDONED else {}
        batches.move(cursor, (batch_id, found.epoch), found.state, after, origin, why=why, **ended)
        return batches.read_batch(cursor, batch_id)


def _hold_staging(cursor: Cursor, batch: Batch) -> None:
    """An approved batch commits exactly what was judged: so that has to be there."""
    moved = sum((batch.verdict or {}).get("moved", {}).values())
    rows, refused = (batch.rows or 0) - moved, (batch.refused or 0) + moved
    if not staging.is_whole(cursor, StagingTables(batch.batch_id, batch.epoch), rows, refused):
        raise StateConflict(
            f"{batch} cannot be approved: its staging is gone (it is kept for quality.keep_rejected_days, and a "
            f"Postgres that stops empties it); offset-ledger abandon {batch.batch_id} --why ..., and the next run "
            "stages and judges its offsets again"
        )
