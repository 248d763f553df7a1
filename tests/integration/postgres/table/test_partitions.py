"""Partitioned tables: rows move with their values and stand once; partitions that are missing are made or named."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.errors import ConfigurationError, TargetMismatch
from offset_ledger.model.batch import Origin
from offset_ledger.model.states import BatchKind
from offset_ledger.operations.check.diff import compare_table, diff
from offset_ledger.operations.repair.verify import verify
from offset_ledger.outside.connections import Connection
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import Session, connect, rows, transaction
from offset_ledger.postgres.table.change import change_target, ensure_target
from offset_ledger.postgres.table.restate import restate
from offset_ledger.steps.commit.step import commit
from tests.fixtures.raw import Raw, commit_raw
from tests.fixtures.staged import NOON
from tests.fixtures.tables import pipeline_of

pytestmark = [pytest.mark.minutes(2)]

PIPELINE = """
pipeline: sales
source: {{topic: sales}}
record:
  key: {{{key}}}
  publish_at: $.at
  {deletes}
  columns: {{{columns}}}
target: {{table: public.sales{target}}}
quality: {{max_quarantined_share: 1.0}}
"""
COLUMNS = "region: text, day: date, state: {type: text, nullable: true}"
OF_THE_ROW = (
    "publish_at timestamptz NOT NULL, _partition integer NOT NULL, _offset bigint NOT NULL, _timestamp timestamptz,"
    " _key bytea, _headers jsonb, _deleted boolean NOT NULL, _batch_id bigint NOT NULL"
)
DELETES = "delete_when: {path: $.op, equals: d}"
REGIONS, DAYS = ("emea", "apac", "amer"), tuple(f"2026-01-{day:02}" for day in (1, 2, 31))

LIST = """
CREATE TABLE public.sales (id bigint, region text, day date NOT NULL, state text, {of_the_row},
  PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE public.sales_emea PARTITION OF public.sales FOR VALUES IN ('emea');
CREATE TABLE public.sales_others PARTITION OF public.sales FOR VALUES IN ('apac', 'amer');
"""
RANGE = """
CREATE TABLE public.sales (row_id bigint GENERATED ALWAYS AS IDENTITY, id bigint NOT NULL, region text NOT NULL,
  state text, day date NOT NULL, {of_the_row}) PARTITION BY RANGE (day);
CREATE UNIQUE INDEX ON public.sales (day, id);
CREATE TABLE public.sales_first PARTITION OF public.sales FOR VALUES FROM (MINVALUE) TO ('2026-01-02');
CREATE TABLE public.sales_rest PARTITION OF public.sales DEFAULT;
"""
HASH = """
CREATE TABLE public.sales (id bigint, region text, day date NOT NULL, state text, {of_the_row}, UNIQUE (region, id))
  PARTITION BY HASH (region, id);
ALTER TABLE public.sales ALTER region SET NOT NULL, ALTER id SET NOT NULL;
CREATE TABLE public.sales_0 PARTITION OF public.sales FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE public.sales_1 PARTITION OF public.sales FOR VALUES WITH (MODULUS 2, REMAINDER 1);
"""
TWO_LEVELS = """
CREATE TABLE public.sales (id bigint, region text, day date NOT NULL, state text, {of_the_row},
  PRIMARY KEY (id, day, region)) PARTITION BY RANGE (day);
CREATE TABLE public.sales_1 PARTITION OF public.sales FOR VALUES FROM ('2026-01-01') TO ('2026-01-31')
  PARTITION BY LIST (region);
CREATE TABLE public.sales_1_emea PARTITION OF public.sales_1 FOR VALUES IN ('emea');
CREATE TABLE public.sales_1_rest PARTITION OF public.sales_1 DEFAULT;
CREATE TABLE public.sales_2 PARTITION OF public.sales FOR VALUES FROM ('2026-01-31') TO ('2026-02-28');
"""
OF_THE_TIME = """
CREATE TABLE public.sales (id bigint, region text NOT NULL, day date NOT NULL, state text, {of_the_row},
  PRIMARY KEY (id, publish_at)) PARTITION BY RANGE (publish_at);
CREATE TABLE public.sales_1 PARTITION OF public.sales FOR VALUES FROM (MINVALUE) TO ('2026-01-01 12:00:02+00');
CREATE TABLE public.sales_2 PARTITION OF public.sales FOR VALUES FROM ('2026-01-01 12:00:02+00') TO (MAXVALUE);
"""
TABLES = {"list": LIST, "range": RANGE, "hash": HASH, "two-levels": TWO_LEVELS, "time": OF_THE_TIME}


def do(session: Session, statements: str) -> None:
    with transaction(session) as cursor:
        cursor.execute(statements.format(of_the_row=OF_THE_ROW))


def written(
    folder: Path, key: str = "id: bigint", columns: str = COLUMNS, deletes: str = "", target: str = ""
) -> Pipeline:
    return pipeline_of(folder, PIPELINE, key=key, columns=columns, deletes=deletes, target=target and f", {target}")


@dataclass(frozen=True, slots=True)
class Sale:
    """A record of a history."""

    seconds: int
    partition: int
    offset: int
    id: int
    region: str
    day: str
    deleted: bool = False

    @property
    def raw(self) -> Raw:
        moment = NOON + timedelta(seconds=self.seconds)
        value = {
            "at": moment.isoformat(),
            "op": "d" if self.deleted else "c",
            "id": self.id,
            "region": self.region,
            "day": self.day,
            "state": f"{self.partition}/{self.offset}",
        }
        return Raw(self.partition, self.offset, json.dumps(value).encode(), None)


def sale(offset: int, id: int = 1, region: str = "emea", day: str = "2026-01-01", deleted: bool = False) -> Sale:
    return Sale(offset, 0, offset, id, region, day, deleted)


def committed(session: Session, pipeline: Pipeline, sales: Iterable[Sale], kind: BatchKind = BatchKind.HEAD) -> Any:
    return commit_raw(session, pipeline, [each.raw for each in sales], kind).total


def history(rng: random.Random, deletes: bool) -> list[list[Sale]]:
    """Batches of two topic partitions, in the order of their offsets."""
    batches, next_offset = [], [0, 0]
    for _ in range(rng.randint(2, 3)):
        batch = []
        for _ in range(rng.randint(1, 8)):
            partition, deleted = rng.randrange(2), deletes and rng.random() < 0.2
            values = rng.randrange(3), rng.choice(REGIONS), rng.choice(DAYS)
            batch.append(Sale(rng.randrange(4), partition, next_offset[partition], *values, deleted))
            next_offset[partition] += 1
        batches.append(batch)
    return batches


def newest(batches: Iterable[Sequence[Sale]], key: Sequence[str]) -> set[tuple[Any, ...]]:
    """The newest sale of each key as a row: by moment, partition and offset."""
    last: dict[tuple[Any, ...], Sale] = {}
    for each in sorted((s for batch in batches for s in batch), key=lambda s: (s.seconds, s.partition, s.offset)):
        last[tuple(getattr(each, name) for name in key)] = each
    return {
        (s.partition, s.offset, s.id, *values(s, key), None if s.deleted else f"{s.partition}/{s.offset}", s.deleted)
        for s in last.values()
    }


def values(sale: Sale, key: Sequence[str]) -> tuple[Any, ...]:
    """Region and day, of a delete marker only where they are of the key."""
    kept = [name for name in ("region", "day") if not sale.deleted or name in key]
    return tuple(getattr(sale, name) if name in kept else None for name in ("region", "day"))


def table(session: Session) -> list[tuple[Any, ...]]:
    query = "SELECT _partition, _offset, id, region, day::text, state, _deleted FROM public.sales"
    return sorted(tuple(row) for row in rows(session, query))


def partitions(session: Session) -> dict[str, str]:
    query = (
        "SELECT relname, pg_get_expr(relpartbound, c.oid) FROM pg_class AS c JOIN pg_inherits ON inhrelid = c.oid"
        " WHERE relkind IN ('r', 'p') ORDER BY 1"
    )
    return {row[0]: row[1] for row in rows(session, query)}


KEYS = (("id",), ("id", "region", "day"))
DECLARED = {"id": "bigint", "region": "text", "day": "date"}


@pytest.mark.parametrize("key", KEYS, ids="-".join)
@pytest.mark.parametrize("kind", TABLES)
def test_every_order_of_arrival_moves_each_row_to_its_newest_partition(
    session: Session, tmp_path: Path, kind: str, key: tuple[str, ...], few: bool
) -> None:
    others = [f"{name}: {type_}" for name, type_ in DECLARED.items() if name not in key]
    deletes = kind == "time" or "region" in key
    pipeline = written(
        tmp_path,
        ", ".join(f"{name}: {DECLARED[name]}" for name in key),
        ", ".join([*others, "state: {type: text, nullable: true}"]),
        DELETES if deletes else "",
    )
    for seed in range(1 if few else 3):
        rng = random.Random(f"{kind}{key}{seed}")
        batches = history(rng, deletes)
        expected = newest(batches, key)
        orders = list(permutations(range(len(batches))))
        for order in rng.sample(orders, 2):
            do(session, "DROP TABLE IF EXISTS public.sales; SELECT tests.empty_ledger()")
            do(session, of_key(TABLES[kind], key) + (NULLABLE if deletes and key == ("id",) else ""))
            for place in order:
                kind_of_batch = BatchKind.HEAD if order == tuple(sorted(order)) else BatchKind.REPLAY
                committed(session, pipeline, batches[place], kind_of_batch)
            assert table(session) == sorted(expected)
            again = committed(session, pipeline, batches[order[0]], BatchKind.REPLAY)
            assert (again.inserted, again.updated, again.deleted) == (0, 0, 0)
            assert table(session) == sorted(expected)
            assert verify(pipeline)[0] == []


NULLABLE = "ALTER TABLE public.sales ALTER region DROP NOT NULL, ALTER day DROP NOT NULL;"


def of_key(ddl: str, key: tuple[str, ...]) -> str:
    """The table with a unique index for this key; its own is for ``id`` alone."""
    if key == ("id",):
        return ddl
    columns = "id, region, day" + (", publish_at" if "BY RANGE (publish_at)" in ddl else "")
    return re.sub(r"((?:PRIMARY KEY|UNIQUE|UNIQUE INDEX ON public.sales) )\([^)]*\)", rf"\1({columns})", ddl)


def test_a_row_whose_partition_value_changes_moves_in_the_same_commit(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path)
    do(session, LIST)
    committed(session, pipeline, [sale(0, 1), sale(1, 2)])
    done = committed(session, pipeline, [sale(2, 1, "apac"), sale(3, 3, "amer"), sale(4, 3, "emea")])
    assert (done.inserted, done.updated, done.superseded) == (1, 1, 1)
    found = rows(session, "SELECT tableoid::regclass::text, id FROM public.sales ORDER BY 2")
    assert [tuple(row) for row in found] == [("sales_others", 1), ("sales_emea", 2), ("sales_emea", 3)]
    assert verify(pipeline)[0] == []
    assert compare_table(pipeline) == ("fits", "table public.sales fits")
    assert not diff(pipeline).differs


def test_verify_names_a_key_that_stands_twice(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path)
    do(session, LIST)
    committed(session, pipeline, [sale(0, 1), sale(1, 2)])
    do(
        session,
        "INSERT INTO public.sales SELECT id, 'apac', day, state, publish_at, _partition, _offset, _timestamp,"
        " _key, _headers, _deleted, _batch_id FROM public.sales WHERE id = 2",
    )
    lines = [line for line in verify(pipeline)[0] if "stands 2 times" in line]
    assert len(lines) == 1
    assert "event 2 stands 2 times in the table, at partition 0 offset 1, partition 0 offset 1" in lines[0]


@pytest.mark.parametrize(
    ("kind", "settings", "said"),
    [
        (
            LIST,
            {"deletes": DELETES},
            "partitioned by region, and a delete marker has no value for it: put it into record.key",
        ),
        (LIST, {"columns": "region: {type: text, nullable: true}, day: date"}, "which is declared nullable"),
        (LIST, {"columns": "day: date"}, "partitioned by region, which the pipeline file does not declare"),
        (LIST.replace("PRIMARY KEY (id, region)", "PRIMARY KEY (id, region, day)"), {}, r"ADD UNIQUE \(id, region\)"),
        (
            RANGE.replace("(day);\nCREATE U", "((day + 1));\n-- "),
            {},
            "an expression, over which Postgres has no unique",
        ),
        (LIST, {"target": "partitions: {every: day}"}, "not partitioned by ranges of one declared date or timestamptz"),
        (RANGE, {"target": "partitions: {every: day, by: publish_at}"}, "it is partitioned by day: leave out"),
    ],
)
def test_a_table_that_is_partitioned_otherwise_is_one_line(
    session: Session, tmp_path: Path, kind: str, settings: dict[str, str], said: str
) -> None:
    pipeline = written(tmp_path, **settings)
    do(session, kind)
    with pytest.raises(TargetMismatch, match=said) as caught, transaction(session) as cursor:
        ensure_target(cursor, pipeline)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "sold", "said"),
    [
        (LIST, sale(1, region="moon"), "FOR VALUES IN ('moon')"),
        (
            RANGE.replace("DEFAULT", "FOR VALUES FROM ('2026-01-03') TO ('2026-01-04')"),
            sale(1, day="2026-01-02"),
            "FOR VALUES FROM ('2026-01-02') TO (...)",
        ),
        (
            HASH.replace("_1 PARTITION", "_1 PARTITION").replace("MODULUS 2, REMAINDER 1", "MODULUS 1024, REMAINDER 1"),
            sale(1, 7),
            "FOR VALUES WITH (MODULUS ..., REMAINDER ...)",
        ),
        (
            TWO_LEVELS.replace("DEFAULT", "FOR VALUES IN ('apac')"),
            sale(1, region="moon"),
            "CREATE TABLE ... PARTITION OF public.sales_1 FOR VALUES IN ('moon')",
        ),
    ],
)
def test_a_missing_partition_is_one_line_and_nothing_is_committed(
    session: Session, tmp_path: Path, kind: str, sold: Sale, said: str
) -> None:
    pipeline = written(tmp_path)
    do(session, kind)
    with pytest.raises(TargetMismatch) as caught:
        committed(session, pipeline, [sold, *(sale(n, n, "emea") for n in range(2, 20))])
    line = str(caught.value)
    for each in (said, "has no partition for (", "; or let target.partitions create"):
        assert each in line
    assert "\n" not in line
    assert table(session) == []


def test_a_table_is_made_with_the_partitions_that_its_rows_need_and_those_ahead(
    session: Session, tmp_path: Path
) -> None:
    pipeline = written(tmp_path, target="partitions: {by: day, every: month, ahead: 2}")
    committed(session, pipeline, [sale(0, 1), sale(1, 2, day="2026-02-28"), sale(2, 1, day="2025-12-31")])
    (today,) = rows(session, "SELECT now() AT TIME ZONE 'UTC'")[0]
    first = today.date().replace(day=1)
    months = [(first + timedelta(days=31 * n)).replace(day=1) for n in range(3)]
    needed = {"sales_p202512", "sales_p202601", "sales_p202602"}
    assert set(partitions(session)) == needed | {f"sales_p{month:%Y%m}" for month in months}
    assert partitions(session)["sales_p202512"] == "FOR VALUES FROM ('2025-12-01') TO ('2026-01-01')"
    assert table(session) == [
        (0, 1, 2, "emea", "2026-02-28", "0/1", False),
        (0, 2, 1, "emea", "2025-12-31", "0/2", False),
    ]
    kept = rows(session, "SELECT found, clause FROM offset_ledger.target_change ORDER BY change_id")
    assert kept[0][0] == "no partition for the month of 2025-12-01"
    assert "ATTACH PARTITION" in kept[0][1]
    assert compare_table(pipeline) == ("fits", "table public.sales fits")
    committed(session, pipeline, [sale(3, 1, day="2026-01-15")])
    assert len(rows(session, "SELECT FROM offset_ledger.target_change")) == len(kept)
    assert verify(pipeline)[0] == []


def test_a_table_by_publish_at_takes_deletes(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path, target="partitions: {by: publish_at, every: week}", deletes=DELETES)
    committed(session, pipeline, [sale(0, 1), sale(1, 2), sale(2, 1, deleted=True)])
    made = partitions(session)
    assert made["sales_p20251229"] == "FOR VALUES FROM ('2025-12-29 00:00:00+00') TO ('2026-01-05 00:00:00+00')"
    assert len(made) == 3
    assert table(session) == [(0, 1, 2, "emea", "2026-01-01", "0/1", False), (0, 2, 1, None, None, None, True)]
    assert verify(pipeline)[0] == []


MONTHS = """
CREATE TABLE public.sales_january PARTITION OF public.sales FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE TABLE public.sales_ahead PARTITION OF public.sales FOR VALUES FROM ('2026-03-01') TO (MAXVALUE);
"""
BY_DAY = RANGE.split("CREATE TABLE public.sales_first")[0]


@pytest.mark.parametrize("name", ["starts", "period", "order", "first_day"])
def test_the_partition_column_may_have_any_name(session: Session, tmp_path: Path, name: str) -> None:
    columns = f"{name}: {{type: date, path: $.day}}"
    pipeline = written(tmp_path, columns=columns, target=f"partitions: {{by: {name}, every: year}}")
    committed(session, pipeline, [sale(0, 1), sale(1, 2)])
    assert partitions(session)["sales_p2026"] == "FOR VALUES FROM ('2026-01-01') TO ('2027-01-01')"


def test_what_partitions_cover_already_needs_none(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path, target="partitions: {every: day, ahead: 3}")
    do(session, BY_DAY + MONTHS)
    committed(session, pipeline, [sale(0, 1), sale(1, 2, day="2026-01-31"), sale(2, 3, day="2026-02-28")])
    assert set(partitions(session)) == {"sales_january", "sales_ahead", "sales_p20260228"}
    assert sorted(row[0] for row in rows(session, "SELECT row_id FROM public.sales")) == [1, 2, 3]


def test_a_default_partition_keeps_the_periods_of_its_rows(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path)
    do(session, BY_DAY + "CREATE TABLE public.sales_rest PARTITION OF public.sales DEFAULT")
    committed(session, pipeline, [sale(0, 1)])
    pipeline = written(tmp_path, target="partitions: {every: year}")
    committed(session, pipeline, [sale(1, 2, day="2026-05-01"), sale(2, 3, day="2024-05-01")])
    assert {"sales_rest", "sales_p2024"} <= set(partitions(session))
    assert "sales_p2026" not in partitions(session)


def test_of_a_period_that_other_partitions_have_a_part_of_the_rest_is_made(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path, target="partitions: {every: year, ahead: 1}")
    do(session, BY_DAY + MONTHS)
    committed(session, pipeline, [sale(0, 1, day="2026-02-10"), sale(1, 2, day="2026-01-31")])
    assert partitions(session)["sales_p20260201000000"] == "FOR VALUES FROM ('2026-02-01') TO ('2026-03-01')"
    assert set(partitions(session)) == {"sales_january", "sales_ahead", "sales_p20260201000000"}  # to MAXVALUE
    committed(session, pipeline, [sale(2, 3, day="2026-02-28"), sale(3, 4, day="2025-06-30")])
    assert partitions(session)["sales_p2025"] == "FOR VALUES FROM ('2025-01-01') TO ('2026-01-01')"
    assert sorted(row[0] for row in rows(session, "SELECT id FROM public.sales")) == [1, 2, 3, 4]
    assert verify(pipeline)[0] == []


@pytest.mark.parametrize(
    ("before", "after"), [("day", "month"), ("week", "month"), ("month", "day"), ("month", "week")]
)
def test_the_periods_may_become_coarser_or_finer_and_back(
    session: Session, tmp_path: Path, before: str, after: str
) -> None:
    days = ["2026-01-01", "2026-01-15", "2026-01-31", "2026-02-01", "2026-03-10", "2026-03-30"]
    for number, every in enumerate((before, after, before)):
        pipeline = written(tmp_path, target=f"partitions: {{by: day, every: {every}, ahead: 1}}")
        committed(session, pipeline, [sale(2 * number + n, 2 * number + n, day=days[number + 3 * n]) for n in (0, 1)])
    found = rows(session, "SELECT id, day::text FROM public.sales ORDER BY 1")
    assert [tuple(row) for row in found] == list(enumerate(days[n] for n in (0, 3, 1, 4, 2, 5)))
    assert verify(pipeline)[0] == []


def test_the_bounds_of_moments_may_lie_within_a_day(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path, target="partitions: {every: day, ahead: 1}")
    within = "('2026-01-01 12:00:01+00') TO ('2026-01-01 12:00:05.5+00')"
    do(session, OF_THE_TIME.split("CREATE TABLE public.sales_1")[0])
    do(session, f"CREATE TABLE public.sales_own PARTITION OF public.sales FOR VALUES FROM {within}")
    committed(session, pipeline, [sale(second, second) for second in range(7)])
    made = partitions(session)
    assert made["sales_p20260101000000"] == "FOR VALUES FROM ('2026-01-01 00:00:00+00') TO ('2026-01-01 12:00:01+00')"
    assert made["sales_p20260101120005"] == "FOR VALUES FROM ('2026-01-01 12:00:05.5+00') TO ('2026-01-02 00:00:00+00')"
    assert sorted(row[0] for row in rows(session, "SELECT id FROM public.sales")) == [*range(7)]


def test_a_detached_partition_that_keeps_its_name_is_named_and_attaching_or_moving_it_helps(
    session: Session, tmp_path: Path
) -> None:
    pipeline = written(tmp_path, target="partitions: {by: day, every: month, ahead: 1}")
    committed(session, pipeline, [sale(0, 1)])
    do(session, "ALTER TABLE public.sales DETACH PARTITION public.sales_p202601")
    said = "needs a partition from 2026-01-01 to 2026-02-01, and public.sales_p202601 exists and is none of its"
    batch = [sale(1, 2).raw]
    with pytest.raises(TargetMismatch, match=said) as caught:
        commit_raw(session, pipeline, batch)
    assert "\n" not in str(caught.value)
    do(session, "CREATE SCHEMA IF NOT EXISTS archive; ALTER TABLE public.sales_p202601 SET SCHEMA archive")
    (open_batch,) = rows(session, "SELECT batch_id FROM offset_ledger.batch WHERE state = 'validated'")
    commit(pipeline, open_batch[0], Origin("test"))
    assert [row[0] for row in rows(session, "SELECT id FROM public.sales")] == [2]
    do(session, "DROP SCHEMA archive CASCADE")


def in_march(offset: int, id: int) -> Sale:
    """One whose own moment is in March, where Kafka's timestamp is in January."""
    return replace(sale(offset, id), seconds=60 * 86_400)


REMERGED = {
    "columns": ("publish_at", ""),
    "beside": ("updated_at", ", bookkeeping: {publish_at: updated_at}"),
}


@pytest.mark.parametrize("kept", REMERGED)
def test_a_remerge_makes_the_partitions_that_its_rows_move_to(session: Session, tmp_path: Path, kept: str) -> None:
    by, target = REMERGED[kept]
    made = f"partitions: {{by: {by}, every: month, ahead: 1}}{target}"
    committed(session, written(tmp_path, target=made), [in_march(0, 1), in_march(1, 2)])
    assert "sales_p202601" not in partitions(session)
    path = tmp_path / "pipeline.yaml"
    path.write_text(path.read_text().replace("publish_at: $.at", "publish_at: kafka_timestamp"))
    with transaction(session) as cursor:
        assert restate(cursor, parse_pipeline(path), Origin("test"), "one clock") == 2
    assert "sales_p202601" in partitions(session)
    assert rows(session, f"SELECT DISTINCT {by} FROM public.sales") == [[NOON]]


def test_a_remerge_without_target_partitions_names_the_partition_that_is_missing(
    session: Session, tmp_path: Path
) -> None:
    pipeline = written(tmp_path)
    do(session, OF_THE_TIME.split("CREATE TABLE public.sales_1")[0])
    do(
        session,
        "CREATE TABLE public.sales_march PARTITION OF public.sales FOR VALUES FROM ('2026-03-01') TO (MAXVALUE)",
    )
    committed(session, pipeline, [in_march(0, 1)])
    path = tmp_path / "pipeline.yaml"
    path.write_text(path.read_text().replace("publish_at: $.at", "publish_at: kafka_timestamp"))
    said = r"has no partition for a row that Kafka's timestamp orders \(.*\); nothing was changed; create it, or let"
    with pytest.raises(TargetMismatch, match=said), transaction(session) as cursor:
        restate(cursor, parse_pipeline(path), Origin("test"), "one clock")


def test_others_read_and_write_while_partitions_are_made(
    session: Session, database: Connection, tmp_path: Path
) -> None:
    pipeline = written(tmp_path, target="partitions: {every: day, by: day}")
    committed(session, pipeline, [sale(0, 1)])
    do(session, f"DROP TABLE public.{max(partitions(session))}")
    with connect(database) as other, transaction(session) as cursor:
        change_target(cursor, pipeline, 1)
        assert cursor.execute("SELECT count(*) FROM offset_ledger.target_change").one()[0] == 4
        with transaction(other) as beside:
            beside.execute("SET LOCAL lock_timeout = '1s'")
            beside.execute("UPDATE public.sales SET state = 'x' WHERE id = 1")
            assert beside.rowcount == 1


def test_check_says_which_partitions_the_next_commit_makes(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path, target="partitions: {every: day, ahead: 1}")
    do(session, BY_DAY)
    standing, line = compare_table(pipeline)
    assert standing == "to be changed"
    today = date.fromisoformat(str(rows(session, "SELECT (now() AT TIME ZONE 'UTC')::date::text")[0][0]))
    for day in (today, today + timedelta(days=1)):
        assert f'ATTACH PARTITION "public"."sales_p{day:%Y%m%d}" FOR VALUES FROM (\'{day}\')' in line
    marks = [mark.text for line in diff(pipeline).lines for mark in line.marks]
    assert len([text for text in marks if "no partition for the day of" in text]) == 2


def test_a_new_table_needs_the_column_and_a_name_that_is_taken_is_one_line(session: Session, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"add target\.partitions\.by"), transaction(session) as cursor:
        ensure_target(cursor, written(tmp_path, target="partitions: {every: day}"))
    do(session, "CREATE TABLE public.sales_p2026 ()")
    with pytest.raises(TargetMismatch, match=r"public\.sales_p2026 exists and is none of its; nothing was changed"):
        committed(session, written(tmp_path, target="partitions: {every: year, by: day}"), [sale(0)])
