"""Topics that were deleted, of which a person has settled that later runs leave them out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from offset_ledger.config.model import Pipeline
from offset_ledger.ledger.database import Cursor, named_sql, transaction
from offset_ledger.ledger.open import open_ledger


@dataclass(frozen=True, slots=True)
class Retirement:
    """The decision about a deleted topic; it says nothing while the cluster has a topic of that name."""

    topic: str
    since: datetime
    who: str
    why: str

    def __str__(self) -> str:
        return f"topic {self.topic} is gone; retired since {self.since:%Y-%m-%d %H:%M} UTC by {self.who}: {self.why}"


def retirements(cursor: Cursor, pipelines: Sequence[str]) -> dict[str, Retirement]:
    """The decisions that hold for these pipelines, by pipeline."""
    cursor.execute(named_sql("topics/retired"), {"pipelines": list(pipelines)})
    return {row["pipeline"]: Retirement(*row[1:]) for row in cursor.fetchall()}


def read_retirement(pipeline: Pipeline) -> Retirement | None:
    """The decision that holds for this pipeline, if there is one.

    Raises:
        DatabaseUnavailable: the ledger is away.
    """
    with open_ledger(pipeline) as session, transaction(session) as cursor:
        return retirements(cursor, [pipeline.name]).get(pipeline.name)
