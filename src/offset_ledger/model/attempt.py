"""One attempt at a batch, which fencing is about."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Attempt:
    """A batch as one claim has it: each claim raises the epoch, and only the attempt of the highest may go on."""

    batch_id: int
    epoch: int

    def __str__(self) -> str:
        return f"batch {self.batch_id} epoch {self.epoch}"
