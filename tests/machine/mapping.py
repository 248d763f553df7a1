"""One function from the ledger's tables, the target and the quarantine to the model's ``Database``.

``comparable`` leaves out of either side what the other does not have; tests/machine/__init__.py says what and why.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from offset_ledger.model.snapshot import topic_of
from offset_ledger.model.states import BatchKind
from offset_ledger.model.states import State as BatchState
from offset_ledger.pipeline_file.pipeline import ROWS_SCHEMA
from tests.machine.pipelines import (
    FILE,
    HEADER,
    TABLE,
    moment_of,
    record_of,
    text_of,
    topic_name,
    value_text,
)  # fmt: skip
from tests.model.beside import COLUMNS, seen
from tests.model.rules import Table, World
from tests.model.state import (
    BAD,
    DELETE,
    DELIVERED,
    PATH,
    TIMESTAMP,
    USERS,
    WAITING,
    Batch,
    Database,
    File,
    LogId,
    Look,
    Part,
    Place,
    Position,
    Quarantined,
    Range,
    Record,
    Row,
    Sheet,
    Slice,
    Source,
    Values,
    is_live,
)  # fmt: skip

Query = Callable[..., list[Mapping[str, Any]]]
"""Runs a statement and returns its rows."""
_ORDERS = {"$.at": PATH, "append": PATH, "kafka_timestamp": TIMESTAMP, None: None}
_SHEET = Sheet._fields
SEVERAL = "several"  # pipeline files of the batches that a pruned one stands for


class LedgerReader:
    """Reads one database; ``numbers`` are the model's numbers of the batches, by id."""

    def __init__(self, query: Query, topics: int, world: World, numbers: dict[int, int], time: int) -> None:
        self.query, self.topics, self.numbers, self.time = query, topics, numbers, time
        self.keys, self.special, self.shape, self.append = world.keys, world.table, world.file.shape, world.append
        self.spellings: dict[int, str] = {}
        names = [topic_name(t) for t in range(topics)]
        self.topic = {f"{FILE}@{name}" if topics > 1 else FILE: t for t, name in enumerate(names)}

    def database(self) -> Database:
        """The database, as the model has it."""
        ids = [row["batch_id"] for row in self.query("SELECT batch_id FROM offset_ledger.batch ORDER BY 1")]
        for batch_id in ids:
            self.numbers.setdefault(batch_id, max(self.numbers.values(), default=0) + 1)
        parts, remerges = self._parts()
        columns, table = self._table()
        return Database(
            sources=self._sources(),
            table=table,
            batches=self._batches(remerges),
            quarantine=self._quarantine(),
            forgotten=self._forgotten(),
            parts=parts,
            columns=columns,
            mark=self._mark(),
            last=max(self.numbers.values(), default=0),
            values=self._values(table) if self.special.beside else (),
        )

    def _of(self, table: str, order: str = "1") -> dict[int, list[Mapping[str, Any]]]:
        """The rows of a table by topic."""
        found = defaultdict(list)
        for row in self.query(f"SELECT * FROM offset_ledger.{table} ORDER BY {order}"):
            found[self.topic[row["pipeline"]]].append(row)
        return found

    def _sources(self) -> tuple[Source, ...]:
        pipelines, starts, cursors = self._of("pipeline"), self._of("beginning", "2, 3"), self._of("cursor")
        looks = defaultdict(set)
        ages = "round(extract(epoch FROM clock_timestamp() - seen_at) / 86400)::int AS age"
        for row in self.query(f"SELECT pipeline, topic_id, last_stables, {ages} FROM offset_ledger.topic_look"):
            look = Look(self.time - row["age"], log_of(row["topic_id"]), tuple(row["last_stables"]))
            looks[self.topic[row["pipeline"]]].add(look)
        sources = []
        for t in range(self.topics):
            at = {(row["topic_id"], row["partition"]): row for row in cursors[t]}
            places = tuple(_place(row, at.get((row["topic_id"], row["partition"]))) for row in starts[t])
            (row,) = pipelines[t] or ({"topic_id": None, "ordered_by": None},)
            log = log_of(row["topic_id"]) if row["topic_id"] else None
            sources.append(Source(log, _ORDERS[row["ordered_by"]], places, tuple(sorted(looks[t]))))
        return tuple(sources)

    def _table(self) -> tuple[int, tuple[Row | None, ...]]:
        kinds = "SELECT format_type(atttypid, NULL) AS kind FROM pg_attribute WHERE attname = 'n' AND attrelid = "
        found = self.query(f"{kinds} to_regclass('public.{TABLE}')")
        rows: list[Row | None] = [None] * self.keys
        table = f"{ROWS_SCHEMA}.{FILE}" if self.special.beside else f"public.{TABLE}"
        there = self.query("SELECT to_regclass(%s) AS name", [table])[0]["name"]
        for row in self.query(f"SELECT * FROM {table}") if there else ():
            if row.get("_group"):
                continue
            record = self._record(row, "_timestamp", "_headers")
            if self.special == Table() and not self.append:
                assert row["event_id"] == f"k{record.key}", row
            elif not self.append:
                assert int(row["k"]) == record.key, row
            assert row.get("_deleted", False) == (record.what == DELETE), row
            assert row.get("state") == (None if record.what == DELETE or self.special.beside else text_of(record)), row
            assert rows[record.key] is None, f"{row} twice"
            topic = int(row["_topic"][1:]) if self.topics > 1 else 0
            place = (moment_of(row["publish_at"]), topic, row["_partition"], row["_offset"])
            rows[record.key] = Row(*place, record, self.numbers[row["_batch_id"]])
        return int(bool(found) and found[0]["kind"] == "bigint"), tuple(rows)

    def _values(self, table: tuple[Row | None, ...]) -> tuple[Any, ...]:
        """The rows of a table beside its bookkeeping, as ``visible`` has them."""
        rows: list[Any] = [None] * self.keys
        for row in self.query(f"SELECT * FROM public.{TABLE}"):
            key = int(row["k"])
            users = row["state"] == USERS.record.what
            whole = USERS.record if users else record_of(row["state"])
            kept = table[key]
            if self.special.copies:
                assert row["by_batch"] is None if users else kept and self.numbers[row["by_batch"]] == kept.batch
            if self.special.refers:
                assert row["parent"] == (whole.value - 0.5 if whole.value else None), row
            if self.special.unique and not users:
                assert row["u"] == (value_text(whole.value) if whole.value else None), row
            columns = [row.get(name) for name, _ in zip(COLUMNS, self.shape, strict=False)]
            self.spellings[key] = str(row["k"])
            rows[key] = whole, tuple(_value(each) for each in columns)
        return tuple(rows)

    @staticmethod
    def _record(row: Mapping[str, Any], timestamp: str, headers: str) -> Record:
        record = record_of(dict(row[headers])[HEADER])
        assert moment_of(row[timestamp]) == record.timestamp, row
        return record

    def _batches(self, remerges: Mapping[tuple[int, int], int]) -> tuple[Batch, ...]:
        ranges, slices, rereads = defaultdict(list), defaultdict(list), defaultdict(list)
        for row in self.query("SELECT * FROM offset_ledger.batch_range ORDER BY batch_id, partition"):
            ranges[row["batch_id"]].append(_range(row))
        for row in self.query("SELECT * FROM offset_ledger.slice ORDER BY batch_id, epoch, slice_no"):
            slices[row["batch_id"]].append(_slice(row))
        for row in self.query(
            "SELECT *, (SELECT array_agg(ARRAY[lower(o), upper(o)]) FROM unnest(offsets) o) AS spans"
            " FROM offset_ledger.pruned_reread ORDER BY batch_id, partition"
        ):
            sheet = Sheet(*(row[name] for name in _SHEET))
            rereads[row["batch_id"]].append((row["partition"], offsets_of(row["spans"]), sheet, row["added"]))
        chosen = defaultdict(list)
        for row in self.query(
            'SELECT r.batch_id, q.partition, q."offset" FROM offset_ledger.redrive_record r'
            " JOIN offset_ledger.quarantine q USING (quarantine_id) ORDER BY 1, 2, 3"
        ):
            chosen[row["batch_id"]].append((row["partition"], row["offset"]))
        approved = {
            row["batch_id"]: _by_partition(row["details"]["missing"])
            for row in self.query(
                "SELECT batch_id, details FROM offset_ledger.decision"
                " WHERE kind = 'unread_tombstones' AND answer = 'approve' ORDER BY decision_id"
            )
        }
        batches = []
        for row in self.query("SELECT * FROM offset_ledger.batch ORDER BY batch_id"):
            batch_id, asked = row["batch_id"], row["request"] or {}
            part = remerges.get((asked.get("remerge"), asked.get("part")), -1)
            batches.append(
                Batch(
                    self.numbers[batch_id],
                    self.topic[row["pipeline"]],
                    BatchKind(row["kind"]),
                    BatchState(row["state"]),
                    log_of(row["topic_id"]),
                    tuple(ranges[batch_id]),
                    row["epoch"],
                    moved_by=row["epoch"],
                    file=File() if row["config_hash"] == SEVERAL else File(*json.loads(row["config_hash"])),
                    slices=tuple(each for each in slices[batch_id] if each.epoch == row["epoch"]),
                    expected=row["slices_expected"],
                    late=_by_partition(row["late"]["missing"]) if row["late"] else (),
                    late_approved=approved.get(batch_id, ()),
                    rejected=bool(row["verdict"]) and not row["verdict"].get("success", True),
                    approval=("given",) if row["approval"] else (),
                    chosen=tuple(chosen[batch_id]),
                    part=part,
                    rereads=tuple(rereads[batch_id]),
                    after=self.numbers.get(row["after"], 0),
                    fill=bool(asked.get("fill")),
                    moved=_moved(row["verdict"] or {}),
                )
            )
        return tuple(batches)

    def _quarantine(self) -> tuple[Quarantined, ...]:
        found = []
        for row in self.query(
            "SELECT q.*, d.quarantine_id IS NOT NULL AS posted, delivered_at FROM offset_ledger.quarantine q"
            " LEFT JOIN offset_ledger.dead_letter d USING (quarantine_id) ORDER BY quarantine_id"
        ):
            place = (self.topic[row["pipeline"]], log_of(row["topic_id"]), row["partition"], row["offset"])
            record = self._record(row, "timestamp", "headers")
            against = next((_holder(each["detail"]) for each in row["reasons"] if each["code"] == "conflict"), -1)
            assert record.what == BAD or against >= 0
            batch, resolved, retried = (
                self.numbers.get(row[name], 0) for name in ("batch_id", "resolved_by", "retried_by")
            )
            letter = "" if not row["posted"] else DELIVERED if row["delivered_at"] else WAITING
            dismissed = row["dismissed_by"] is not None
            found.append(Quarantined(*place, record, batch, resolved, retried, dismissed, letter, against))
        return tuple(found)

    def _mark(self) -> int:
        """Of the one partition of the dead letter topic."""
        marks = self.query("SELECT next_offset FROM offset_ledger.dead_letter_mark")
        return int(marks[0]["next_offset"]) if marks else 0

    def _forgotten(self) -> tuple[tuple[int, LogId, int, int], ...]:
        spans = "(SELECT array_agg(ARRAY[lower(o), upper(o)]) FROM unnest(offsets) o) AS spans"
        return tuple(
            (self.topic[row["pipeline"]], log_of(row["topic_id"]), row["partition"], offset)
            for row in self.query(f"SELECT *, {spans} FROM offset_ledger.pruned_dismissal ORDER BY 1")
            for offset in offsets_of(row["spans"])
        )

    def _parts(self) -> tuple[tuple[Part, ...], dict[tuple[int, int], int]]:
        """The parts of all remerges, and the number that each has, by decision and place in it."""
        parts, numbers = [], {}
        query = "SELECT * FROM offset_ledger.decision WHERE kind = 'remerge' ORDER BY decision_id"
        for row in self.query(query):
            for place, ranges in enumerate(row["details"]["parts"], start=1):
                numbers[row["decision_id"], place] = len(parts)
                log = log_of(row["topic_id"])
                parts.append(Part(self.topic[row["pipeline"]], log, tuple(Range(*r) for r in ranges)))
        return tuple(parts), numbers


def _value(text: str | None) -> Record | None:
    """The record that an optional column has its value of."""
    if text is None:
        return None
    return USERS.record if text == USERS.record.what else record_of(text)


def _holder(detail: str) -> int:
    """The key of which the reason of a conflict says that its row has the value."""
    return int(float(detail.rpartition(" ")[2]))


def _moved(verdict: Mapping[str, Any]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted((int(p), n) for p, n in verdict.get("moved", {}).items() if n))


def log_of(text: str) -> LogId:
    """The log, by the ledger's name of it."""
    topic_id, truncations = topic_of(text)
    return int(topic_id.split("-")[1]), truncations


def offsets_of(spans: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """The offsets of a multirange."""
    return tuple(offset for start, end in spans for offset in range(start, end))


def _place(row: Mapping[str, Any], cursor: Mapping[str, Any] | None) -> Place:
    start = (log_of(row["topic_id"]), row["partition"], row["start_offset"], _epoch(row))
    return Place(*start, cursor["next_offset"], _epoch(cursor)) if cursor else Place(*start)


def _epoch(row: Mapping[str, Any]) -> int:
    return -1 if row["leader_epoch"] is None else int(row["leader_epoch"])


def _range(row: Mapping[str, Any]) -> Range:
    sheet = None if row["inserted"] is None else Sheet(*(row[name] for name in _SHEET))
    return Range(row["partition"], row["from_offset"], row["until_offset"], _epoch(row), sheet, row["added"] or 0)


def _slice(row: Mapping[str, Any]) -> Slice:
    span = [-1 if row[name] is None else row[name] for name in ("min_offset", "max_offset")]
    partition = -1 if row["partition"] is None else row["partition"]
    counts = (row["rows"], row["refused"], row["skipped"])
    return Slice(row["epoch"], row["slice_no"], partition, *counts, *span)


def _by_partition(numbers: Mapping[str, int]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted((int(p), n) for p, n in numbers.items() if n))


# -- what is equal -----------------------------------------------------------------------------------------------------


def comparable(db: Database) -> Database:
    """The database without what only one side has, in one order."""
    there = {q.position for q in db.quarantine}
    return db._replace(
        sources=tuple(
            s._replace(places=tuple(sorted(s.places)), looks=_needed_looks(s), planned_at=0) for s in db.sources
        ),
        batches=tuple(_batch(b, there) for b in sorted(db.batches, key=lambda each: each.number)),
        quarantine=tuple(sorted(db.quarantine, key=lambda each: each.position)),
        forgotten=tuple(sorted(set(db.forgotten))),
        columns=db.columns if any(db.table) else 0,
        values=tuple(visible(each) if isinstance(each, Values) else each for each in db.values),
        groups=(),
        shape="",
        pruned=(),
    )


def visible(values: Values) -> Any:
    """A row of the table as a reader sees it: of which records its values are."""
    if not is_live(values):
        return None
    whole = values.whole.record
    users = whole.what == USERS.record.what
    columns = (seen(tag, name) for name, tag in zip(COLUMNS, values.columns, strict=False))
    return USERS.record if users else whole, tuple(columns)


def _needed_looks(s: Source) -> tuple[Look, ...]:
    """Those since the newest of which everything was read: the model does not tell moments of one day apart."""
    at = {place.partition: place.next for place in s.known().values()}
    passed = (
        (each.time, each.stables)
        for each in s.looks
        if each.log == s.log and all(stable <= at.get(p, 0) for p, stable in enumerate(each.stables))
    )
    newest = max(passed, default=(0, ()))
    return tuple(sorted({each for each in s.looks if (each.time, each.stables) >= newest}))


def _batch(b: Batch, quarantined: set[Position]) -> Batch:
    """As both sides know it: a prune takes what was tried about a record with the record."""
    slices = tuple(each._replace(partition=each.partition if each.records else -1) for each in b.manifest)
    b = b._replace(
        claim=0, moved_by=0, slices=slices, judged=(), approval=("given",) if b.approval else (),
        ranges=tuple(sorted(b.ranges)),
    )  # fmt: skip
    if b.kind is BatchKind.REDRIVE:
        b = b._replace(slices=_redriven(b), expected=None if b.expected is None else 0)
    left = tuple(place for place in b.chosen if (b.topic, b.log, *place) in quarantined)
    b = b._replace(chosen=() if b.state is BatchState.ABANDONED else left)
    if b.epoch == 0 or (b.expected == 0 and b.kind is BatchKind.HEAD):  # nobody decoded it
        b = b._replace(file=File())
    if b.kind is BatchKind.PRUNED:
        b = Batch(b.number, b.topic, b.kind, b.state, b.log, b.ranges, rereads=_summed(b.rereads))
    return b


def _redriven(b: Batch) -> tuple[Slice, ...]:
    """A redrive leaves the offsets between its records out when all is staged, in slices of their own."""
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for each in b.manifest:
        if each.records:
            counts[each.partition] += Counter(rows=each.rows, refused=each.refused, skipped=each.skipped)
    sealed = b.expected is not None
    return tuple(
        Slice(b.epoch, 0, p, c["rows"], c["refused"], c["skipped"] if sealed else 0, 0, 0)
        for p, c in sorted(counts.items())
    )


def _summed(rereads: Iterable[Any]) -> tuple[Any, ...]:
    """By partition the offsets that were read again, and the sum of their sheets."""
    found: dict[int, tuple[set[int], list[int]]] = {}
    for each in rereads:
        if isinstance(each, Range):
            each = each.partition, range(each.start, each.end), each.sheet, each.added
        partition, offsets, sheet, added = each
        there, sums = found.setdefault(partition, (set(), [0] * 9))
        there.update(offsets)
        sums[:] = [a + b for a, b in zip(sums, (*sheet, added), strict=True)]
    return tuple((p, tuple(sorted(there)), tuple(sums)) for p, (there, sums) in sorted(found.items()))


def differences(real: Database, model: Database) -> list[str]:
    """In which fields they differ, batch by batch."""
    lines = [
        f"{name}:\n    ledger {a}\n    model  {b}"
        for name in Database._fields
        if name != "batches" and (a := getattr(real, name)) != (b := getattr(model, name))
    ]
    numbers = sorted({b.number for b in (*real.batches, *model.batches)})
    for number in numbers:
        a, b = real.batch(number), model.batch(number)
        if a is None or b is None:
            lines.append(f"batch {number}:\n    ledger {a}\n    model  {b}")
        elif a != b:
            fields = [
                f"{n}: ledger {getattr(a, n)} model {getattr(b, n)}"
                for n in Batch._fields
                if getattr(a, n) != getattr(b, n)
            ]
            lines.append(f"batch {number}: " + "\n    ".join(fields))
    return lines
