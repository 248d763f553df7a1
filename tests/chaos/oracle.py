"""What was produced, and whether table, quarantine and ledger tell exactly that: identities, never counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from psycopg2 import sql

from offset_ledger.operations.repair.verify import verify
from offset_ledger.outside.producer.record import Record
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import Session, rows
from tests.chaos.added_columns import PREFIX

Place = tuple[int, int]
"""Partition and offset. The partitions of a second topic begin at SPAN."""

SPAN = 100


class Kind(StrEnum):
    """What a produced record is, for the table."""

    EVENT = "event"
    TOMBSTONE = "tombstone"
    MALFORMED = "malformed"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class Produced:
    """A record that was sent. ``mark`` is its own; ``publish_at`` is the moment that orders, in milliseconds.

    ``others`` are its values of the columns that hold moments and days, as ISO 8601 in UTC, and of those added by then.
    ``timestamp`` is Kafka's, by which a remerge orders, in milliseconds. ``note`` is what it says of the note, which
    may be NULL, or None where it leaves the one that is there; a delete takes it away.
    """

    event_id: str
    publish_at: int
    mark: str | None
    kind: Kind
    value: bytes | None
    others: tuple[str | None, ...] = ()
    timestamp: int = 0
    note: tuple[str | None] | None = None


@dataclass(slots=True)
class Journal:
    """What the producer knows: acknowledged records by their place, and those nobody answered for, by their mark.

    ``dismissed`` are malformed records that were dismissed: a prune may have removed them from quarantine.
    """

    acknowledged: dict[Place, Produced] = field(default_factory=dict)
    unknown: dict[str | None, Produced] = field(default_factory=dict)
    dismissed: set[Place] = field(default_factory=set)

    def on_ack(self, kinds: Mapping[int, Produced], first: int = 0) -> Callable[[Record, int, int], None]:
        """A callback for Publisher; ``kinds`` maps the id of the record object to what it is.

        ``first`` is what the first partition of its topic is called here.
        """

        def note(record: Record, partition: int, offset: int) -> None:
            self.acknowledged[first + partition, offset] = kinds[id(record)]

        return note

    def order_by_timestamps(self) -> None:
        """Let Kafka's timestamp be the moment that orders each record, as a remerge does."""
        self.acknowledged = {place: replace(r, publish_at=r.timestamp) for place, r in self.acknowledged.items()}
        self.unknown = {mark: replace(r, publish_at=r.timestamp) for mark, r in self.unknown.items()}

    def of(self, *kinds: Kind) -> Iterator[tuple[Place, Produced]]:
        """The acknowledged records of these kinds."""
        return ((place, record) for place, record in self.acknowledged.items() if record.kind in kinds)


@dataclass(frozen=True, slots=True)
class Range:
    """A committed range with the lines of its balance sheet that the journal can foretell."""

    batch_id: int
    head: bool
    partition: int
    start: int
    until: int
    quarantined: int
    gap: int

    def __contains__(self, place: Place) -> bool:
        return place[0] == self.partition and self.start <= place[1] < self.until


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the target."""

    event_id: str
    publish_at: int
    mark: str | None
    place: Place
    deleted: bool
    others: tuple[str | None, ...] = ()
    note: str | None = None


def check(session: Session, pipeline: Pipeline, journal: Journal, drained: bool = True) -> list[str]:
    """The violations. ``drained``: every acknowledged record must have been committed by now."""
    read = pipelines(pipeline)
    ranges = [r for number, each in enumerate(read) for r in committed(session, each, SPAN * number)]
    table = target_rows(session, pipeline)
    invariants = [line for each in read for line in verify(each)[0]]
    return [
        *_chain(ranges),
        *(_missing(ranges, journal) if drained else ()),
        *_origins(table, journal),
        *_winners(table, ranges, journal),
        *_notes(table, ranges, journal),
        *_quarantine(session, pipeline, ranges, journal),
        *_sheets(ranges, journal),
        *invariants,
    ]


def pipelines(pipeline: Pipeline) -> list[Pipeline]:
    """The pipeline of each topic of the file, in the order of their names."""
    return [pipeline.of_topic(topic) for topic in sorted(pipeline.source.topics)] or [pipeline]


def committed(session: Session, pipeline: Pipeline, first: int = 0) -> list[Range]:
    """The ranges of all committed batches; ``first`` is what the journal calls the first partition."""
    found = rows(
        session,
        "SELECT batch_id, kind IN ('head', 'pruned'), partition + %s, from_offset, until_offset, quarantined, gap"
        " FROM offset_ledger.batch_range JOIN offset_ledger.batch USING (batch_id, pipeline)"
        " WHERE pipeline = %s AND state = 'committed' ORDER BY partition, from_offset",
        [first, pipeline.name],
    )
    return [Range(*row) for row in found]


def target_rows(session: Session, pipeline: Pipeline) -> list[Row]:
    """Every row of the target table; where bookkeeping is beside it, what is deleted has no row there."""
    others = [
        sql.SQL(", " + _TEXTS.get(each.type.name, "{}::text")).format(sql.Identifier(each.name))
        for each in pipeline.record.columns
        if each.type.name in _TEXTS or each.name.startswith(PREFIX)
    ]
    read = [each.source.topic for each in pipelines(pipeline)]
    of_topic = sql.SQL("{} * (array_position({}, _topic) - 1)").format(sql.Literal(SPAN), sql.Literal(read))
    query = sql.SQL(
        "SELECT concat_ws(', ', {}), (extract(epoch FROM publish_at) * 1000)::bigint, state, _partition + {}, _offset,"
        " {}, {}{} FROM {}"
    ).format(
        sql.SQL(", ").join(map(sql.Identifier, pipeline.record.key_names)),
        of_topic if len(read) > 1 else sql.Literal(0),
        sql.SQL("state IS NULL" if pipeline.target.beside else "_deleted"),
        sql.Identifier("note") if pipeline.record.groups else sql.NULL,
        sql.Composed(others),
        _joined(pipeline),
    )
    if not rows(session, "SELECT to_regclass(%s)", [f"{pipeline.target.schema}.{pipeline.target.table}"])[0][0]:
        return []
    return [Row(r[0], r[1], r[2], (r[3], r[4]), r[5], tuple(r[7:]), r[6]) for r in rows(session, query)]


def _joined(pipeline: Pipeline) -> sql.Composable:
    table = sql.Identifier(pipeline.target.schema, pipeline.target.table)
    if not pipeline.target.beside:
        return table
    key = sql.SQL(", ").join(map(sql.Identifier, pipeline.record.key_names))
    bookkeeping = sql.Identifier("offset_ledger_rows", pipeline.file)
    # The bookkeeping has a column for each group of columns, which may have the name of one of them.
    order = "publish_at, _partition, _offset, _timestamp, _key, _headers, _deleted, _batch_id"
    kept = sql.SQL(f"(SELECT {{}}, {order} FROM {{}})").format(key, bookkeeping)
    return sql.SQL("{} FULL JOIN {} AS b USING ({})").format(table, kept, key)


# The same text whatever time zone and style of dates the session has.
_TEXTS = {
    "timestamptz": """to_char({} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')""",
    "date": "to_char({}, 'YYYY-MM-DD')",
}


def fingerprint(session: Session, pipeline: Pipeline) -> set[tuple[str, str]]:
    """Every row with the transaction that wrote it: equal before and after means that no row was touched."""
    query = sql.SQL("SELECT t.xmin::text, t::text FROM {} AS t").format(
        sql.Identifier(pipeline.target.schema, pipeline.target.table)
    )
    return {(row[0], row[1]) for row in rows(session, query)}


def _chain(ranges: list[Range]) -> Iterator[str]:
    """Committed head ranges neither overlap nor leave a hole."""
    ends: dict[int, int] = {}
    for r in ranges:
        if r.head:
            if ends.get(r.partition, r.start) != r.start:
                yield f"partition {r.partition}: range starts at {r.start}, its predecessor ends at {ends[r.partition]}"
            ends[r.partition] = r.until


def _missing(ranges: list[Range], journal: Journal) -> Iterator[str]:
    """Every acknowledged offset lies in exactly one committed head range."""
    ends: dict[int, list[Range]] = defaultdict(list)
    for r in ranges:
        if r.head:
            ends[r.partition].append(r)
    for place in journal.acknowledged:
        holding = [r for r in ends[place[0]] if place in r]
        # An aborted tail has nothing to wait for: it may lie above the last range.
        if len(holding) != 1 and not (not holding and journal.acknowledged[place].kind is Kind.ABORTED):
            yield f"loss: offset {place} was acknowledged and lies in {len(holding)} committed head ranges"


def _origins(table: list[Row], journal: Journal) -> Iterator[str]:
    """Every row is one produced record, in every value, and no two rows are the same record."""
    seen: dict[Place, str] = {}
    for row in table:
        if row.place in seen:
            yield f"duplicate: offset {row.place} stands as {row.event_id} and as {seen[row.place]}"
        seen[row.place] = row.event_id
        source = journal.acknowledged.get(row.place) or journal.unknown.get(row.mark)
        if source is None:
            yield f"row {row} was never produced"
        elif source.kind not in (Kind.EVENT, Kind.TOMBSTONE):
            yield f"row {row} comes from a record that is {source.kind}"
        elif (source.event_id, source.publish_at, source.mark, _padded(source.others, len(row.others))) != (
            *(row.event_id, row.publish_at, row.mark),
            row.others,
        ):
            yield f"row {row} differs from what was produced: {source}"
        elif row.deleted != (source.kind is Kind.TOMBSTONE):
            yield f"row {row} is {'' if row.deleted else 'not '}a delete marker, produced was {source}"


def _padded(values: tuple[str | None, ...], length: int) -> tuple[str | None, ...]:
    """NULL in what was added later."""
    return (*values, *[None] * (length - len(values)))


def _winners(table: list[Row], ranges: list[Range], journal: Journal) -> Iterator[str]:
    """The row of each event id is the newest of its records in committed ranges."""
    newest: dict[str, tuple[int, int, int]] = {}
    for place, record in journal.of(Kind.EVENT, Kind.TOMBSTONE):
        if any(place in r for r in ranges):
            order = (record.publish_at, *place)
            newest[record.event_id] = max(order, newest.get(record.event_id, order))
    standing: dict[str, Row] = {}
    for row in table:
        if row.event_id in standing:
            yield f"duplicate: event {row.event_id} has more than one row"
        standing[row.event_id] = row
    for event_id, order in newest.items():
        row = standing.get(event_id)
        if row is None:
            yield f"loss: event {event_id} has no row; its newest record is {order}"
        elif (row.publish_at, *row.place) < order:
            yield f"loss: event {event_id} stands at {(row.publish_at, *row.place)}, its newest record is {order}"
        elif (row.publish_at, *row.place) > order and row.mark not in journal.unknown:
            yield f"event {event_id} stands at {(row.publish_at, *row.place)}, above its newest record {order}"


def _notes(table: list[Row], ranges: list[Range], journal: Journal) -> Iterator[str]:
    """The note of each row is what the newest of its records says that does not leave it, in committed ranges."""
    said: dict[str, tuple[tuple[int, int, int], str | None]] = {}
    for place, record in journal.of(Kind.EVENT, Kind.TOMBSTONE):
        if record.note is not None and any(place in r for r in ranges):
            order = (record.publish_at, *place)
            if record.event_id not in said or said[record.event_id][0] < order:
                said[record.event_id] = order, record.note[0]
    uncertain = {record.event_id for record in journal.unknown.values()}
    for row in table:
        order_and_note = said.get(row.event_id)
        wanted = order_and_note[1] if order_and_note else None
        if row.note != wanted and row.event_id not in uncertain:
            yield f"event {row.event_id} has the note {row.note}, its records say {wanted}: {order_and_note}"


def _quarantine(session: Session, pipeline: Pipeline, ranges: list[Range], journal: Journal) -> Iterator[str]:
    """Quarantine holds the malformed records of committed ranges with their very bytes, and nothing else."""
    query = 'SELECT partition + %s, "offset", value FROM offset_ledger.quarantine WHERE pipeline = %s'
    found = [row for n, each in enumerate(pipelines(pipeline)) for row in rows(session, query, [SPAN * n, each.name])]
    kept = {(row[0], row[1]): bytes(row[2]) for row in found}
    if len(kept) < len(found):
        yield "duplicate: quarantine has an offset twice"
    for place, record in journal.of(Kind.MALFORMED):
        if place in journal.dismissed and place not in kept:
            continue
        if any(place in r for r in ranges) and kept.get(place) != record.value:
            yield f"loss: malformed record {place} is not in quarantine with its bytes"
    for place in kept.keys() - {place for place, _ in journal.of(Kind.MALFORMED)}:
        known = journal.acknowledged.get(place)
        if known or not journal.unknown:
            yield f"quarantine has {place}, which was produced as {known.kind if known else 'nothing'}"


def _sheets(ranges: list[Range], journal: Journal) -> Iterator[str]:
    """Each balance sheet has the quarantined records and the gaps that the journal foretells.

    A record of unknown outcome may stand where the journal sees a gap.
    """
    unknown = len(journal.unknown)
    for r in ranges:
        inside = [record.kind for place, record in journal.acknowledged.items() if place in r]
        malformed = inside.count(Kind.MALFORMED)
        gap = r.until - r.start - len(inside) + inside.count(Kind.ABORTED)
        if not (
            malformed <= r.quarantined <= malformed + unknown
            and gap - unknown <= r.gap + r.quarantined - malformed <= gap
        ):
            yield (
                f"batch {r.batch_id} partition {r.partition}: the sheet says {r.quarantined} quarantined and {r.gap} "
                f"gaps, produced were {malformed} malformed and {gap} unreadable offsets, {unknown} unknown"
            )
