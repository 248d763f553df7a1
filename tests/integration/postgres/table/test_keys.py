"""Rows that are known by columns of their own names and types: what Postgres calls equal is one row."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from psycopg2.extras import execute_values

from offset_ledger.errors import TargetMismatch, TransientError
from offset_ledger.model.batch import Attempt
from offset_ledger.model.states import BatchKind
from offset_ledger.operations.repair.verify import verify
from offset_ledger.pipeline_file.pipeline import Merge, Pipeline
from offset_ledger.postgres.ledger.database import Session, rows, transaction
from offset_ledger.postgres.ledger.staging import StagingTables
from offset_ledger.postgres.table.change import ensure_target
from offset_ledger.steps.commit.merge import explained
from tests.fixtures.raw import Raw, commit_raw
from tests.fixtures.staged import NOON
from tests.fixtures.tables import do, pipeline_of

pytestmark = [pytest.mark.usefixtures("any_case"), pytest.mark.minutes(1)]

PIPELINE = """
pipeline: orders
source: {{connection: kafka_default, topic: orders{key_format}}}
record:
  key: {{{key}}}
  publish_at: {publish_at}
  {deletes}
  columns: {{state: text}}
target: {{connection: postgres_default, table: public.orders, merge: {merge}}}
quality: {{max_quarantined_share: 1.0}}
"""
OPERATION = "delete_when: {path: $.op, equals: d}"
TOMBSTONE = "tombstone: delete"


@dataclass(frozen=True, slots=True)
class Kind:
    """A key: the columns as the pipeline file and as the table have them, and texts of JSON for each, some equal."""

    file: tuple[tuple[str, str], ...]
    table: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]

    def columns(self, of_kafka_key: bool) -> str:
        place = ", key: $.{}" if of_kafka_key else ", path: $.{}"
        return ", ".join(f"{name}: {{type: '{kind}'{place.format(name)}}}" for name, kind in self.file)


KINDS = (
    Kind((("order_id", "bigint"),), ("bigint",), (("1", "2", "-9223372036854775808"),)),
    Kind(
        (("tenant", "text"), ("number", "numeric(8,3)")),
        ("text COLLATE any_case", "numeric(8,3)"),
        (('"a"', '"A"', '"b"', '"\\u00e4"', '"a "'), ("1.5", "1.500", "15e-1", "2")),
    ),
    Kind(
        (("moment", "timestamptz"), ("weight", "double precision"), ("id", "uuid")),
        ("timestamptz", "double precision", "uuid"),
        (
            ('"2026-01-01T12:00:00Z"', '"2026-01-01T13:00:00+01:00"', '"2026-01-01T12:00:00.000001Z"'),
            ("0.0", "-0.0", "1.5"),
            ('"A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"', '"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"'),
        ),
    ),
    Kind(
        (("event_id", "varchar(5)"), ("day", "date")),
        ('varchar(5) COLLATE "C"', "date"),
        (('"x"', '"X"'), ('"2026-02-28"',)),
    ),
)


def written(
    folder: Path, key: str, merge: Merge = Merge.NEWEST_WINS, deletes: str = OPERATION, publish_at: str = "$.at"
) -> Pipeline:
    key_format = ", key_format: json" if "key: $" in key else ""
    return pipeline_of(
        folder, PIPELINE, key_format=key_format, key=key, merge=merge, deletes=deletes, publish_at=publish_at
    )


def create(session: Session, kind: Kind) -> None:
    """The table as its users made it: the columns of the key last, and known by a unique index."""
    names = ", ".join(name for name, _ in kind.file)
    key = ", ".join(f"{name} {made} NOT NULL" for (name, _), made in zip(kind.file, kind.table, strict=True))
    of_the_row = (
        "_partition integer NOT NULL, _offset bigint NOT NULL, _timestamp timestamptz, _key bytea, _headers jsonb"
    )
    do(
        session,
        f"CREATE TABLE public.orders (state text, publish_at timestamptz NOT NULL, {of_the_row},"
        f" _deleted boolean NOT NULL, _batch_id bigint NOT NULL, {key}, UNIQUE ({names}))",
    )


@dataclass(frozen=True, slots=True)
class Event:
    """A record of a history; ``key`` are texts of JSON."""

    seconds: int
    partition: int
    offset: int
    key: tuple[str, ...]
    deleted: bool

    def raw(self, kind: Kind, tombstones: bool) -> Raw:
        names = [name for name, _ in kind.file]
        key = "{" + ", ".join(f'"{name}": {text}' for name, text in zip(names, self.key, strict=True)) + "}"
        moment = NOON + timedelta(seconds=self.seconds)
        if tombstones:
            value = None if self.deleted else json.dumps({"state": self.state})
            return Raw(self.partition, self.offset, value.encode() if value else None, key.encode(), timestamp=moment)
        body = {"at": moment.isoformat(), "op": "d" if self.deleted else "c", "state": self.state}
        members = json.dumps(body)[:-1] + f", {key[1:]}"
        return Raw(self.partition, self.offset, members.encode(), None)

    @property
    def state(self) -> str:
        return f"{self.partition}/{self.offset}"


def history(rng: random.Random, kind: Kind) -> list[list[Event]]:
    """Batches of two partitions, in the order of their offsets."""
    batches, next_offset = [], [0, 0]
    for _ in range(rng.randint(1, 3)):
        batch = []
        for _ in range(rng.randint(1, 8)):
            partition = rng.randrange(2)
            key = tuple(rng.choice(texts) for texts in kind.values)
            batch.append(Event(rng.randrange(4), partition, next_offset[partition], key, rng.random() < 0.2))
            next_offset[partition] += 1
        batches.append(batch)
    return batches


def newest(session: Session, kind: Kind, events: Sequence[Event]) -> set[tuple[Any, ...]]:
    """The state of each key by Postgres alone: which keys are one, and which record of one is the last."""
    columns = ", ".join(f"k{place} {made}" for place, made in enumerate(kind.table))
    keys = ", ".join(f"k{place}" for place in range(len(kind.table)))
    with transaction(session) as cursor:
        cursor.execute(
            f"CREATE TEMPORARY TABLE told (seconds int, part int, off int, gone boolean, {columns}) ON COMMIT DROP"
        )
        values = [
            (
                e.seconds,
                e.partition,
                e.offset,
                e.deleted,
                *(str(t).strip('"').encode().decode("unicode_escape") for t in e.key),
            )
            for e in events
        ]
        execute_values(cursor, "INSERT INTO told VALUES %s", values)
        cursor.execute(
            f"SELECT (array_agg(array[part, off, gone::int] ORDER BY seconds DESC, part DESC, off DESC))[1:1]"
            f" FROM told GROUP BY {keys}"
        )
        found = [row[0][0] for row in cursor.fetchall()]
    return {(part, off, None if gone else f"{part}/{off}") for part, off, gone in found}


def table(session: Session) -> set[tuple[Any, ...]]:
    return {tuple(row) for row in rows(session, "SELECT _partition, _offset, state FROM public.orders")}


@pytest.mark.parametrize("tombstones", [False, True])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(name for name, _ in kind.file))
def test_every_order_of_arrival_gives_the_newest_record_of_each_key(
    session: Session, tmp_path: Path, kind: Kind, tombstones: bool, few: bool
) -> None:
    publish_at = "kafka_timestamp" if tombstones else "$.at"
    pipeline = written(
        tmp_path, kind.columns(tombstones), deletes=TOMBSTONE if tombstones else OPERATION, publish_at=publish_at
    )
    for seed in range(2 if few else 6):
        rng = random.Random(f"{kind.file}{tombstones}{seed}")
        batches = history(rng, kind)
        do(session, "DROP TABLE IF EXISTS public.orders; SELECT tests.empty_ledger()")
        if seed % 2:
            create(session, kind)
        elif "any_case" in str(kind.table):
            continue  # the table that the pipeline makes is bytewise
        expected = newest(session, kind, [event for batch in batches for event in batch])
        for batch in batches:
            commit_raw(session, pipeline, [event.raw(kind, tombstones) for event in batch])
        assert table(session) == expected
        again = rng.choice(list(permutations(batches)))
        for batch in again:
            done = commit_raw(session, pipeline, [e.raw(kind, tombstones) for e in batch], BatchKind.REPLAY)
            assert (done.total.inserted, done.total.updated, done.total.deleted) == (0, 0, 0)
        assert table(session) == expected
        assert verify(pipeline)[0] == []


def test_a_key_of_the_kafka_key_that_cannot_be_read_is_refused_also_where_it_deletes(
    session: Session, tmp_path: Path
) -> None:
    pipeline = written(tmp_path, KINDS[0].columns(True), deletes=TOMBSTONE, publish_at="kafka_timestamp")
    good = Raw(0, 0, b'{"state": "s"}', b'{"order_id": 1}')
    commit_raw(
        session,
        pipeline,
        [good, Raw(0, 1, None, b'{"order_id": "x"}'), Raw(0, 2, None, None), Raw(0, 3, b'{"state": "t"}', b"{}")],
    )
    assert table(session) == {(0, 0, "s")}
    found = rows(session, "SELECT \"offset\", reasons->0->>'path', reasons->0->>'code' FROM offset_ledger.quarantine")
    assert {tuple(row) for row in found} == {
        (1, "_key.order_id", "type"),
        (2, "_key", "missing"),
        (3, "_key.order_id", "missing"),
    }


def test_skip_existing_keeps_the_first_record_of_each_key(session: Session, tmp_path: Path) -> None:
    kind = KINDS[1]
    pipeline = written(tmp_path, kind.columns(False), Merge.SKIP_EXISTING)
    create(session, kind)
    events = [Event(n, 0, n, ('"a"', scale), False) for n, scale in enumerate(("2", "2.0", "2.00"))]
    commit_raw(session, pipeline, [event.raw(kind, False) for event in events])
    assert table(session) == {(0, 0, "0/0")}
    assert verify(pipeline)[0] == []


@pytest.mark.parametrize(
    ("ddl", "said"),
    [
        ("", "order_id, tenant has no primary key or unique index of its own"),
        (", UNIQUE (order_id)", "ADD UNIQUE \\(order_id, tenant\\)"),
        (", UNIQUE (tenant, order_id, state)", "ADD UNIQUE \\(order_id, tenant\\)"),
        (", PRIMARY KEY (tenant, order_id)", ""),
    ],
)
def test_a_table_has_to_know_its_rows_by_exactly_these_columns(
    session: Session, tmp_path: Path, ddl: str, said: str
) -> None:
    pipeline = written(tmp_path, "order_id: bigint, tenant: text")
    do(
        session,
        "CREATE TABLE public.orders (tenant text, order_id bigint, state text, publish_at timestamptz,"
        " _partition integer, _offset bigint, _timestamp timestamptz, _key bytea, _headers jsonb, _deleted boolean,"
        f" _batch_id bigint{ddl})",
    )
    with transaction(session) as cursor:
        if said:
            with pytest.raises(TargetMismatch, match=said):
                ensure_target(cursor, pipeline)
        else:
            assert not ensure_target(cursor, pipeline)


def test_a_row_that_another_writer_inserts_meanwhile_is_worth_another_try(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path, "order_id: bigint, tenant: text")
    with transaction(session) as cursor:
        ensure_target(cursor, pipeline)
    insert = (
        "INSERT INTO public.orders (order_id, tenant, publish_at, _partition, _offset, _deleted, _batch_id)"
        " VALUES (1, 'a', now(), 0, 0, true, 1)"
    )
    do(session, insert)
    with (
        pytest.raises(TransientError, match="another writer"),
        transaction(session) as cursor,
        explained(pipeline, StagingTables(Attempt(1, 1))),
    ):
        cursor.execute(insert)
