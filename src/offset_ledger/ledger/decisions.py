"""What people decide about a batch: kept with who, when and why."""

from __future__ import annotations

from datetime import UTC, datetime

from offset_ledger.core.states import TRANSITIONS, State
from offset_ledger.errors import StateConflict
from offset_ledger.ledger import batches
from offset_ledger.ledger.batches import Batch, Origin
from offset_ledger.ledger.database import Session, transaction


def decide(session: Session, batch_id: int, after: State, origin: Origin, why: str) -> Batch:
    """Approve (``after`` validated) a rejected batch, or abandon an open one.

    Raises:
        StateConflict: the batch is in a state that this decision does not lead out of.
    """
    with transaction(session) as cursor:
        found = batches.read_batch(cursor, batch_id, lock=True)
        wrong = found.state is not State.REJECTED if after is State.VALIDATED else after not in TRANSITIONS[found.state]
        if wrong:
            verb = "approved; only a rejected one can" if after is State.VALIDATED else "abandoned; it has ended"
            raise StateConflict(f"{found} cannot be {verb}")
        ended = {"ended_at": datetime.now(UTC)} if after is State.ABANDONED else {}
        batches.move(cursor, (batch_id, found.epoch), found.state, after, origin, why=why, **ended)
        return batches.read_batch(cursor, batch_id)
