"""Pruning in the ledger: one batch stands for committed ones before it, in transactions of a bounded size."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from itertools import groupby
from typing import Any

from offset_ledger.model.batch import Origin
from offset_ledger.model.states import BatchKind
from offset_ledger.postgres.ledger.database import Cursor, Session, rows, set_local


@dataclass(frozen=True, slots=True)
class OldPart:
    """The old part of one log: what ended before ``older_than``, in the batches up to ``up_to`` (-1: none).

    Its quarantined records have an age of their own.
    """

    pipeline: str
    topic_id: str
    older_than: datetime
    up_to: int
    records_older_than: datetime
    records_up_to: int

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments that the statements share."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(frozen=True, slots=True)
class Head:
    """A committed head batch, or the one that stands for pruned ones; ``kept_by`` says what keeps it, if anything."""

    batch_id: int
    kind: BatchKind
    kept_by: str | None


@dataclass(frozen=True, slots=True)
class Run:
    """Head batches without a kept one between them, oldest first, and the other batches that go with them.

    ``goes_on``: more of the others are left, so the heads stay, and the newest stands for the others that go.
    """

    heads: tuple[Head, ...]
    rereads: tuple[int, ...] = ()
    goes_on: bool = False

    @property
    def summary(self) -> int:
        """The batch that stands for all of them afterwards."""
        return self.heads[-1].batch_id

    @property
    def summed(self) -> tuple[Head, ...]:
        """The head batches that it stands for."""
        return self.heads[-1:] if self.goes_on else self.heads

    @property
    def reached(self) -> int:
        """The id up to which nothing is left to do."""
        return max(self.rereads, default=-1) if self.goes_on else self.summary

    @property
    def is_pruned(self) -> bool:
        """Return whether there is nothing to do."""
        return not self.rereads and (self.goes_on or [head.kind for head in self.heads] == [BatchKind.PRUNED])

    @property
    def removed(self) -> int:
        """The number of batches that go."""
        return len(self.summed) - 1 + len(self.rereads)


def old_parts(
    cursor: Cursor, pipeline: str, older_than: datetime, records_older_than: datetime, keep: int
) -> list[OldPart]:
    """Return what is old of each log of the pipeline, except its newest ``keep`` head batches."""
    cursor.execute("SELECT DISTINCT topic_id FROM offset_ledger.beginning WHERE pipeline = %s ORDER BY 1", [pipeline])
    parts = []
    for topic_id in [row[0] for row in cursor.fetchall()]:
        newest = []
        for before in (older_than, records_older_than):
            log = {"pipeline": pipeline, "topic_id": topic_id, "older_than": before, "keep": keep}
            row = cursor.run("prune/newest_batch", **log).fetchone()
            newest.append(int(row[0]) if row else -1)
        parts.append(OldPart(pipeline, topic_id, older_than, newest[0], records_older_than, newest[1]))
    return parts


def count_partitions(cursor: Cursor, part: OldPart) -> int:
    """Return how many ranges a head batch of the log has at most."""
    query = "SELECT count(*) FROM offset_ledger.beginning WHERE pipeline = %s AND topic_id = %s"
    return int(cursor.execute(query, [part.pipeline, part.topic_id]).one()[0])


def read_heads(cursor: Cursor, part: OldPart, after: int, limit: int) -> list[Head]:
    """The next head batches above the id ``after``."""
    heads = cursor.run("prune/heads", **part.arguments, after=after, limit=limit)
    return [Head(row["batch_id"], BatchKind(row["kind"]), row["kept_by"]) for row in heads]


def read_runs(cursor: Cursor, part: OldPart, heads: Sequence[Head], after: int, limit: int) -> Iterator[Run]:
    """Return the runs of these heads, each with the other batches between the summary before it (``after``) and it.

    There are up to ``limit`` others in all: a run that has more of them goes on, and is the last.
    """
    for kept, group in groupby(heads, key=lambda head: head.kept_by is not None):
        if not kept:
            run = Run(tuple(group))
            between = {"after": after, "before": run.summary, "limit": limit + 1}
            rereads = tuple(row["batch_id"] for row in cursor.run("prune/rereads", **part.arguments, **between))
            if len(rereads) > limit:
                yield replace(run, rereads=rereads[:limit], goes_on=True)
                return
            yield replace(run, rereads=rereads)
            limit -= len(rereads)
            after = run.summary


def note(cursor: Cursor, part: OldPart, origin: Origin) -> None:
    """Record who prunes, and how far; before anything is deleted."""
    cursor.run("prune/note", **part.arguments, who=origin.who)


def sum_up(cursor: Cursor, part: OldPart, runs: Sequence[Run], origin: Origin) -> None:
    """Replace each run by one batch, and delete the others. The pipeline must be locked."""
    set_local(cursor, "offset_ledger.pruning", part.pipeline)
    chosen = [(head.batch_id, run.summary, True) for run in runs for head in run.summed]
    chosen += [(batch_id, run.summary, False) for run in runs for batch_id in run.rereads]
    columns = dict(zip(("batch_ids", "summaries", "heads"), map(list, zip(*chosen, strict=True)), strict=True))
    cursor.run("prune/choose", **columns)
    cursor.execute("ANALYZE prune_choice")
    cursor.run("prune/add_rereads")
    why = f"stands for batches that ended before {part.older_than.isoformat(timespec='seconds')}"
    cursor.run("prune/mark_summaries", who=origin.who, why=why)
    cursor.run("prune/sum_ranges")
    delete_batches(cursor)


def delete_batches(cursor: Cursor) -> None:
    """Delete the chosen batches, but for those that stand for the others."""
    cursor.run("prune/delete_batches")


def read_entries(
    cursor: Cursor, kind: str, arguments: Mapping[str, Any], after: int, limit: int
) -> tuple[int | None, list[int]]:
    """Return the last of the next ids above ``after``, None at the end, and those that are old enough.

    ``kind`` is records, audits, notifications or schemas.
    """
    rows = cursor.run(f"prune/{kind}", **arguments, after=after, limit=limit).fetchall()
    return rows[-1]["id"] if rows else None, [row["id"] for row in rows if row["goes"]]


def delete_entries(cursor: Cursor, kind: str, arguments: Mapping[str, Any], ids: list[int]) -> None:
    """Delete those that are old enough. For records and schemas the pipeline must be locked."""
    cursor.run(f"prune/delete_{kind}", **arguments, ids=ids)


def unknown(session: Session, batch_ids: Sequence[int]) -> set[int]:
    """Return the ids of these that no batch has any more."""
    query = "SELECT batch_id FROM offset_ledger.batch WHERE batch_id = ANY(%s) AND kind <> 'pruned'"
    return set(batch_ids) - {row[0] for row in rows(session, query, [list(batch_ids)])}
