"""Truncated logs: how far a log still agrees with the ledger, by leader epochs; pure (KIP-101, KIP-320)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Boundary:
    """An offset up to which the ledger knows a log: all below it was stable under this leader epoch, if it is known."""

    partition: int
    offset: int
    leader_epoch: int | None = None


EpochEnds = Mapping[tuple[int, int], int]  # (partition, leader epoch) -> where the log of it and of earlier ones ends


def agrees(known: Boundary, ends: Mapping[int, int], epoch_ends: EpochEnds) -> bool:
    """Whether the log, which ends at ``ends``, still has below the boundary what it had then.

    A partition that is not in ``ends`` says nothing: Kafka never removes one.
    """
    if known.offset > ends.get(known.partition, known.offset):
        return False
    if known.leader_epoch is None:
        return True
    return known.offset <= epoch_ends.get((known.partition, known.leader_epoch), known.offset)


def last_agreed(history: Iterable[Boundary], ends: Mapping[int, int], epoch_ends: EpochEnds) -> dict[int, Boundary]:
    """Per partition the highest boundary that the log still agrees with; absent where it agrees with none."""
    agreed: dict[int, Boundary] = {}
    for known in sorted(history, key=lambda b: b.offset):
        if agrees(known, ends, epoch_ends):
            agreed[known.partition] = known
    return agreed
