"""The ledger's rows as values, and what the model calls them: the one place that reads tables for the witness."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from offset_ledger.model.states import BatchKind
from offset_ledger.model.states import State as BatchState
from tests.model.state import Batch, LogId, Place, Quarantined, Range, Record, Row, Sheet, Slice, Source

Line = Mapping[str, Any]
Query = Callable[[str], Sequence[Line]]
"""Runs a statement and returns its rows by name; all statements of a witness must see one snapshot."""

ANY = Record("any")  # what a record says is not in the ledger
_SPANS = "(SELECT array_agg(ARRAY[lower(o), upper(o)]) FROM unnest(offsets) AS o) AS spans"
_OF_FILE = "WHERE pipeline IN (SELECT pipeline FROM offset_ledger.pipeline WHERE file = '{}')"
_SHEET = ", ".join(Sheet._fields)
# Columns by name: the moments of records may be such as Python has not.
_QUERIES = {
    "pipelines": f"SELECT pipeline, topic, topic_id, ordered_by FROM offset_ledger.pipeline {_OF_FILE} ORDER BY topic",
    "starts": f"SELECT pipeline, topic_id, partition, start_offset FROM offset_ledger.beginning {_OF_FILE}",
    "cursors": f"SELECT pipeline, topic_id, partition, next_offset FROM offset_ledger.cursor {_OF_FILE}",
    "batches": "SELECT batch_id, pipeline, kind, state, epoch, topic_id, slices_expected, gap_reason, after"
    f" FROM offset_ledger.batch {_OF_FILE} ORDER BY batch_id",
    "ranges": f"SELECT batch_id, partition, from_offset, until_offset, added, {_SHEET}"
    f" FROM offset_ledger.batch_range {_OF_FILE} ORDER BY batch_id, partition",
    "slices": "SELECT s.batch_id, s.epoch, slice_no, partition, s.rows, s.refused, s.skipped, min_offset, max_offset"
    f" FROM offset_ledger.slice s JOIN offset_ledger.batch USING (batch_id, epoch) {_OF_FILE} ORDER BY 1, 3",
    "rereads": f"SELECT p.batch_id, partition, added, {_SPANS} FROM offset_ledger.pruned_reread p"
    f" JOIN offset_ledger.batch USING (batch_id) {_OF_FILE} ORDER BY 1, 2",
    "events": "SELECT event_id, batch_id, at, from_state, to_state, e.epoch, who, why FROM offset_ledger.batch_event e"
    f" JOIN offset_ledger.batch USING (batch_id) {_OF_FILE} ORDER BY event_id",
    "quarantine": 'SELECT quarantine_id, pipeline, topic_id, partition, "offset", batch_id, resolved_by, retried_by,'
    f" dismissed_by FROM offset_ledger.quarantine {_OF_FILE} ORDER BY quarantine_id",
    "redriven": "SELECT r.batch_id, quarantine_id, outcome FROM offset_ledger.redrive_record r"
    f" JOIN offset_ledger.quarantine USING (quarantine_id) {_OF_FILE} ORDER BY 1, 2",
}


class Tables(NamedTuple):
    """Rows of the ledger about one pipeline file, and ``written``: batch, topic and place of each row of its table.

    Where there is bookkeeping beside the table, they are in that.
    """

    pipelines: Sequence[Line]
    starts: Sequence[Line]
    cursors: Sequence[Line]
    batches: Sequence[Line]
    ranges: Sequence[Line]
    slices: Sequence[Line]
    rereads: Sequence[Line]
    events: Sequence[Line]
    quarantine: Sequence[Line]
    redriven: Sequence[Line]
    written: Sequence[Line]


def files(query: Query) -> list[str]:
    """The pipeline files of the ledger, without forgotten ones."""
    return [
        row["file"] for row in query("SELECT DISTINCT file FROM offset_ledger.pipeline WHERE file !~ '~' ORDER BY 1")
    ]


def read_tables(query: Query, file: str) -> Tables:
    """What the ledger has of a pipeline file."""
    rows = {name: query(text.format(file)) for name, text in _QUERIES.items()}
    tables = (
        "SELECT coalesce(to_regclass('offset_ledger_rows.' || file), to_regclass(target))::text AS written"
        f" FROM offset_ledger.pipeline {_OF_FILE} LIMIT 1"
    )
    (table,) = query(tables.format(file))
    return Tables(**rows, written=_written(query, table["written"]) if table["written"] else ())


def _written(query: Query, table: str) -> Sequence[Line]:
    columns = [
        row["attname"] for row in query(f"SELECT attname FROM pg_attribute WHERE attrelid = '{table}'::regclass")
    ]
    topic = "_topic" if "_topic" in columns else "NULL AS _topic"
    return query(f"SELECT _batch_id, {topic}, _partition, _offset FROM {table}")


class Ledger:
    """The tables in the model's words. Topics, and logs, are numbered in the order of their names."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.topics = {row["pipeline"]: number for number, row in enumerate(tables.pipelines)}
        self.logs = {log: (n, 0) for n, log in enumerate(sorted({row["topic_id"] for row in tables.starts}), 1)}
        self.rows = {row["batch_id"]: row for row in tables.batches}
        self.ranges, self.slices = by_batch(tables.ranges), by_batch(tables.slices)
        self.rereads, self.redriven = by_batch(tables.rereads), by_batch(tables.redriven)
        self.records = {row["quarantine_id"]: row for row in tables.quarantine}

    @property
    def explains_gaps(self) -> bool:
        """Whether offsets of a batch may lack a record."""
        return any(row["gap_reason"] for row in self.tables.batches)

    def sources(self, cursors: Mapping[tuple[int, LogId, int], int]) -> tuple[Source, ...]:
        """The pipelines with these cursors, by topic, log and partition. Start offsets are there from the beginning."""
        places: dict[int, list[Place]] = defaultdict(list)
        for row in self.tables.starts:
            at = self.place(row)
            places[at[0]].append(Place(*at[1:], row["start_offset"], cursor=cursors.get(at)))
        return tuple(
            Source(self.logs.get(row["topic_id"]), row["ordered_by"], places=tuple(places[number]))
            for number, row in enumerate(self.tables.pipelines)
        )

    def place(self, row: Line) -> tuple[int, LogId, int]:
        """Topic, log and partition of a row."""
        return self.topics[row["pipeline"]], self.logs[row["topic_id"]], row["partition"]

    def cursors(self) -> dict[tuple[int, LogId, int], int]:
        """The cursors as they are now."""
        return {self.place(row): row["next_offset"] for row in self.tables.cursors}

    def batch_in(self, number: int, state: BatchState, epoch: int, moved_by: int) -> Batch:
        """The batch as it was in a state and epoch, as far as its rows are kept.

        One that stands for pruned batches was a head batch; its ranges are those that it has now.
        """
        row = self.rows[number]
        pruned = row["kind"] == BatchKind.PRUNED
        closed = state is BatchState.COMMITTED
        ranges = tuple(_range(each, closed) for each in self.ranges[number])
        slices: tuple[Slice, ...] = tuple(map(_slice, self.slices[number]))
        expected = row["slices_expected"]
        if pruned or epoch != row["epoch"] or expected == 0:  # its manifest is gone, or a person skipped the range
            slices, expected = (Slice(epoch, 0, 0, sum(r.end - r.start for r in ranges), 0, 0, 0, 0),), 1
        return Batch(
            number,
            self.topics[row["pipeline"]],
            BatchKind.HEAD if pruned else BatchKind(row["kind"]),
            state,
            self.logs[row["topic_id"]],
            ranges,
            epoch,
            moved_by=moved_by,
            slices=slices,
            expected=expected,
            chosen=() if state is BatchState.ABANDONED else self._chosen(number),
        )

    def batch_now(self, number: int, moved_by: int) -> Batch:
        """The batch as it is now, with the balance sheets that its ranges have."""
        row = self.rows[number]
        batch = self.batch_in(number, BatchState(row["state"]), row["epoch"], moved_by)
        return batch._replace(
            kind=BatchKind(row["kind"]),
            ranges=tuple(_range(each, True) for each in self.ranges[number]),
            rereads=tuple(r for each in self.rereads[number] for r in _rereads(each)),
            after=row["after"] or 0,
        )

    def _chosen(self, number: int) -> tuple[tuple[int, int], ...]:
        records = (self.records[row["quarantine_id"]] for row in self.redriven[number])
        return tuple(sorted((each["partition"], each["offset"]) for each in records))

    def quarantined(self, row: Line) -> Quarantined:
        """A record of the quarantine as the batch left it that refused it."""
        topic, log, partition = self.place(row)
        return Quarantined(topic, log, partition, row["offset"], ANY, row["batch_id"])

    def quarantine_now(self) -> tuple[Quarantined, ...]:
        """The quarantine as it is now."""
        return tuple(
            self.quarantined(row)._replace(
                resolved_by=row["resolved_by"] or 0,
                tried_by=row["retried_by"] or 0,
                dismissed=row["dismissed_by"] is not None,
            )
            for row in self.tables.quarantine
        )

    def table(self) -> tuple[Row | None, ...]:
        """The rows and delete markers of the target."""
        topics = {row["topic"]: number for number, row in enumerate(self.tables.pipelines)}
        return tuple(
            Row(0, topics.get(row["_topic"], 0), row["_partition"], row["_offset"], ANY, row["_batch_id"])
            for row in self.tables.written
        )


def by_batch(rows: Iterable[Line]) -> Mapping[int, list[Line]]:
    """The rows of each batch."""
    groups = defaultdict(list)
    for row in rows:
        groups[row["batch_id"]].append(row)
    return groups


def _range(row: Line, closed: bool) -> Range:
    sheet = Sheet(*(row[name] for name in Sheet._fields)) if closed and row["inserted"] is not None else None
    return Range(row["partition"], row["from_offset"], row["until_offset"], 0, sheet, row["added"] or 0 if sheet else 0)


def _rereads(row: Line) -> list[Range]:
    """The spans of a row; what they added together is with the first."""
    spans = enumerate(row["spans"])
    return [Range(row["partition"], start, end, added=0 if n else row["added"]) for n, (start, end) in spans]


def _slice(row: Line) -> Slice:
    counts, span = (row["rows"], row["refused"], row["skipped"]), (row["min_offset"] or 0, row["max_offset"] or 0)
    return Slice(row["epoch"], row["slice_no"], row["partition"] or 0, *counts, *span)
