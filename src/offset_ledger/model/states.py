"""Batch states and their transitions; docs/state-machine.md and the CHECKs of the ledger say the same."""

from enum import StrEnum


class State(StrEnum):
    """The state of a batch."""

    PLANNED = "planned"
    STAGING = "staging"
    STAGED = "staged"
    VALIDATED = "validated"
    REJECTED = "rejected"
    COMMITTED = "committed"
    ABANDONED = "abandoned"

    @property
    def is_open(self) -> bool:
        """Return whether the batch may still become committed."""
        return self not in (State.COMMITTED, State.ABANDONED)


class BatchKind(StrEnum):
    """The purpose of a batch; only ``head`` moves the cursors, and ``pruned`` stands for head batches of long ago."""

    HEAD = "head"
    BACKFILL = "backfill"
    REPLAY = "replay"
    REDRIVE = "redrive"
    PRUNED = "pruned"


# A trigger writes each transition to `batch_event`, and a CHECK there refuses others: if code wrote them, one path
# would forget it, and a manual statement certainly would. `verify` notices if a superuser disables triggers.
#
# A claim (to staging) is allowed again from every state in which nobody has decided yet: the epoch fences the rest.
TRANSITIONS: dict[State, frozenset[State]] = {
    State.PLANNED: frozenset({State.STAGING, State.ABANDONED}),
    State.STAGING: frozenset({State.STAGING, State.STAGED, State.ABANDONED}),
    State.STAGED: frozenset({State.STAGING, State.VALIDATED, State.REJECTED, State.ABANDONED}),
    State.VALIDATED: frozenset({State.STAGING, State.COMMITTED, State.ABANDONED}),
    State.REJECTED: frozenset({State.VALIDATED, State.ABANDONED}),
    State.COMMITTED: frozenset(),
    State.ABANDONED: frozenset(),
}

CLAIMABLE = tuple(state for state, after in TRANSITIONS.items() if State.STAGING in after)
