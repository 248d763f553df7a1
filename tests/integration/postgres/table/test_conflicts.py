"""Unique constraints besides the key: a violation names its records, or these are quarantined and the batch goes on."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.errors import LedgerViolation
from offset_ledger.model.states import BatchKind
from offset_ledger.operations.check.diff import compare_table
from offset_ledger.operations.repair.verify import verify
from offset_ledger.outside.producer.record import Record
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import Session, rows, transaction
from offset_ledger.postgres.table.change import ensure_target
from offset_ledger.steps.commit.step import commit
from offset_ledger.steps.run.ingest import run_batch
from offset_ledger.steps.run.redrive import parse_choice, plan_redrive
from tests.fixtures import raw
from tests.fixtures.raw import Raw, commit_raw
from tests.fixtures.staged import ME, NOON
from tests.fixtures.tables import do, pipeline_of
from tests.fixtures.topic_bench import TopicBench

PIPELINE = """
pipeline: users
source: {{topic: users}}
record:
  key: {{id: bigint}}
  publish_at: $.at
  delete_when: {{path: $.op, equals: d}}
  columns:
    email: {{type: text, nullable: true}}
    name: {{type: text, nullable: true}}
    age: {{type: {age}, nullable: true}}
target: {{table: public.users, on_conflict: {on_conflict}, merge: {merge}}}
quality: {{max_quarantined_share: {share}}}
"""
TABLE = """
CREATE TABLE public.users (id bigint PRIMARY KEY, email text, name text, age {age}, lower_name text GENERATED ALWAYS AS
  (lower(name)) STORED, publish_at timestamptz NOT NULL, _partition integer NOT NULL, _offset bigint NOT NULL,
  _timestamp timestamptz, _key bytea, _headers jsonb, _deleted boolean NOT NULL, _batch_id bigint NOT NULL{unique})
"""


@dataclass(frozen=True, slots=True)
class User:
    """A record: the newest of an id is the one with the latest time."""

    seconds: int
    id: int
    email: str | None = None
    name: str | None = None
    deleted: bool = False
    age: Any = None


def written(
    folder: Path, on_conflict: str = "quarantine", merge: str = "newest_wins", share: float = 1.0, age: str = "integer"
) -> Pipeline:
    return pipeline_of(folder, PIPELINE, on_conflict=on_conflict, merge=merge, share=share, age=age)


def create(session: Session, unique: str = ", UNIQUE (email)", more: str = "", age: str = "integer") -> None:
    do(session, TABLE.format(unique=unique, age=age) + ";" + more)


def records(users: Sequence[User], start: int = 0) -> list[Raw]:
    made = []
    for offset, each in enumerate(users, start):
        at = (NOON + timedelta(seconds=each.seconds)).isoformat()
        value = {"at": at, "op": "d" if each.deleted else "c", "id": each.id, "email": each.email, "name": each.name}
        made.append(Raw(0, offset, json.dumps(value | {"age": each.age}).encode(), None))
    return made


def send(session: Session, pipeline: Pipeline, *users: User, start: int = 0, kind: BatchKind = BatchKind.HEAD) -> Any:
    return commit_raw(session, pipeline, records(users, start), kind).total


def emails(session: Session) -> dict[int, str | None]:
    return {row[0]: row[1] for row in rows(session, "SELECT id, email FROM public.users WHERE NOT _deleted")}


def quarantined(session: Session) -> dict[int, list[tuple[str, str, str]]]:
    query = 'SELECT "offset", reasons FROM offset_ledger.quarantine WHERE resolved_by IS NULL'
    return {row[0]: [(r["code"], r["path"], r["detail"]) for r in row[1]] for row in rows(session, query)}


def test_a_violation_names_the_constraint_the_values_and_the_records(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path, "fail")
    create(session)
    send(session, pipeline, User(0, 1, "a"), User(1, 2, "b"))
    with pytest.raises(LedgerViolation) as caught:
        send(session, pipeline, User(2, 3, "c"), *(User(3 + n, 4 + n, "a") for n in range(4)), start=2)
    line = str(caught.value)
    assert 'unique constraint "users_email_key", Key (email)=(a) already exists' in line
    assert "4 records: users 0:3, users 0:4, users 0:5, ..." in line
    assert line.endswith("or write target.on_conflict: quarantine")
    assert "\n" not in line
    assert emails(session) == {1: "a", 2: "b"}
    assert compare_table(pipeline)[1].endswith(
        "the unique index users_email_key: a row that these change or refuse stops a commit"
    )
    assert compare_table(written(tmp_path)) == ("fits", "table public.users fits")


def test_records_that_conflict_are_quarantined_and_the_batch_goes_on(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path)
    create(session)
    send(session, pipeline, User(0, 1, "a"), User(1, 2, "b"))
    done = send(
        session,
        pipeline,
        User(2, 3, "c"),
        User(3, 4, "a"),  # is the stored one's
        User(4, 5, "c"),  # is that of offset 2
        User(5, 6, "c"),
        User(6, 2, "c"),  # an older record of the key wins then
        User(5, 2, "d"),
        User(7, 1, "a"),  # its own
        User(8, 7, None),
        User(8, 8, None),
        start=2,
    )
    assert emails(session) == {1: "a", 2: "d", 3: "c", 7: None, 8: None}
    assert (done.inserted, done.updated, done.quarantined, done.superseded) == (3, 2, 4, 0)
    detail = "users_email_key keeps rows apart: (email) = ({}) is that of event {}"
    assert quarantined(session) == {
        3: [("conflict", "email", detail.format("a", 1))],
        **{offset: [("conflict", "email", detail.format("c", 3))] for offset in (4, 5, 6)},
    }
    assert verify(pipeline)[0] == []
    before = rows(session, "SELECT u::text FROM public.users AS u ORDER BY id")
    again = send(session, pipeline, User(2, 3, "c"), User(3, 4, "a"), start=2, kind=BatchKind.REPLAY)
    assert (again.inserted, again.updated, again.quarantined) == (0, 0, 1)
    assert rows(session, "SELECT u::text FROM public.users AS u ORDER BY id") == before

    send(session, pipeline, User(20, 1, "moved"), start=11)
    planned = plan_redrive(pipeline, parse_choice(reason="conflict"), ME, "1 has another email")
    run_batch(pipeline, planned, ME, lambda _: None)
    assert emails(session) == {1: "moved", 2: "d", 3: "c", 4: "a", 7: None, 8: None}
    assert set(quarantined(session)) == {4, 5, 6}
    assert verify(pipeline)[0] == []


def test_a_record_that_loses_to_a_loser_stands(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path)
    create(session, ", UNIQUE (email), UNIQUE (name)")
    send(session, pipeline, User(0, 1, "a", "x"))
    send(session, pipeline, User(1, 2, "a", "y"), User(2, 3, "c", "y"), User(3, 4, "c", "x"), start=1)
    assert emails(session) == {1: "a", 3: "c"}
    assert {offset: [r[1] for r in of] for offset, of in quarantined(session).items()} == {
        1: ["email"],
        3: ["name"],
    }


@pytest.mark.parametrize("deferrable", [False, True])
def test_values_that_move_between_rows_in_one_batch(session: Session, tmp_path: Path, deferrable: bool) -> None:
    pipeline = written(tmp_path)
    create(session, f", UNIQUE (email){' DEFERRABLE' if deferrable else ''}")
    send(session, pipeline, User(0, 1, "a"), User(0, 2, "b"), User(0, 3, "c"), User(0, 4, "d"))
    send(
        session,
        pipeline,
        *(
            User(5, 1, "b"),
            User(5, 2, "a"),
            User(5, 3, deleted=True),
            User(6, 5, "c"),
            User(6, 6, "d"),
            User(7, 4, "d"),
        ),
        start=4,
    )
    if deferrable:
        assert emails(session) == {1: "b", 2: "a", 4: "d", 5: "c"}
        assert set(quarantined(session)) == {8}
    else:  # Postgres compares row by row
        assert emails(session) == {1: "a", 2: "b", 4: "d"}
        assert set(quarantined(session)) == {4, 5, 7, 8}
    assert verify(pipeline)[0] == []


@pytest.mark.parametrize(
    ("unique", "more", "refused"),
    [
        ("", "CREATE UNIQUE INDEX ON public.users (email) WHERE name = 'x'", {3}),
        ("", "CREATE UNIQUE INDEX ON public.users (lower(email))", {1, 3, 5}),
        (", UNIQUE (lower_name)", "", {2, 3, 4, 6}),
        (", UNIQUE NULLS NOT DISTINCT (email, name)", "", {3}),
        ("", "CREATE UNIQUE INDEX ON public.users (email) INCLUDE (name)", {3, 5}),
        ("", "CREATE UNIQUE INDEX ON public.users ((email IS NULL)) WHERE email IS NULL", set()),
        ("", "CREATE UNIQUE INDEX ON public.users (name, email) WHERE id > 1", set()),
        ("", "CREATE UNIQUE INDEX ON public.users (id, email)", set()),
        ("", "", set()),
    ],
)
def test_constraints_of_every_kind_are_judged_as_postgres_does(
    session: Session, tmp_path: Path, unique: str, more: str, refused: set[int]
) -> None:
    pipeline = written(tmp_path)
    create(session, unique, more)
    send(session, pipeline, User(0, 1, "a", "x"))
    users = (
        *(User(1, 2, "A", "y"), User(2, 3, "b", "X"), User(3, 4, "a", "x")),
        *(User(4, 5, "d", "X"), User(5, 6, "b", "z"), User(6, 7, None, "Z")),
    )
    send(session, pipeline, *users, start=1)
    assert set(quarantined(session)) == refused
    send(session, pipeline, User(7, 8, None, None), start=7)
    assert verify(pipeline)[0] == []


def test_skip_existing_keeps_the_first(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path, merge="skip_existing")
    create(session)
    send(session, pipeline, User(0, 1, "a"))
    send(session, pipeline, User(1, 1, "b"), User(2, 2, "a"), User(3, 2, "b"), User(4, 3, "b"), start=1)
    assert emails(session) == {1: "a", 2: "b"}
    assert set(quarantined(session)) == {2, 4}


def test_what_is_quarantined_for_another_reason_conflicts_with_nothing(session: Session, tmp_path: Path) -> None:
    do(session, "CREATE DOMAIN public.adult AS integer CHECK (VALUE > 17)")
    pipeline = written(tmp_path, age="public.adult, encoding: number")
    create(session, age="public.adult")
    send(session, pipeline, User(0, 1, "a", age=3), User(1, 2, "a", age=20), User(2, 3, "a", age=2), User(3, 4, "a"))
    assert emails(session) == {2: "a"}
    assert {offset: [r[0] for r in of] for offset, of in quarantined(session).items()} == {
        0: ["input"],
        2: ["input"],
        3: ["conflict"],
    }


def test_conflicts_count_for_the_share_that_rejects(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path, share=0.4)
    create(session)
    with pytest.raises(Exception, match="quarantined share 50%"):
        send(session, pipeline, User(0, 1, "a"), User(1, 2, "a"))


def test_a_conflict_that_comes_after_validation_is_an_error(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = written(tmp_path)
    create(session)

    def after_another(of: Pipeline, batch_id: int, *given: Any) -> Any:
        do(
            session,
            "INSERT INTO public.users (id, email, publish_at, _partition, _offset, _deleted, _batch_id)"
            " VALUES (9, 'a', now(), 0, 0, false, 0)",
        )
        return commit(of, batch_id, *given)

    monkeypatch.setattr(raw, "commit", after_another)
    with pytest.raises(
        LedgerViolation, match="changed since the batch was validated: offset-ledger batch abandon"
    ) as caught:
        send(session, pipeline, User(0, 1, "a"), User(1, 2, "b"))
    assert "1 record: users 0:0" in str(caught.value)
    assert emails(session) == {9: "a"}


def test_an_expression_that_refuses_a_value_is_left_to_the_commit(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path)
    create(session, "", "CREATE UNIQUE INDEX ON public.users ((10 / age))")
    send(session, pipeline, User(0, 1, age=1), User(1, 2, age=6), User(2, 3, age=7))
    assert set(quarantined(session)) == {2}
    with pytest.raises(LedgerViolation, match="division by zero"):
        send(session, pipeline, User(3, 4, age=0), start=3)


def test_records_of_several_topics_conflict(session: Session, tmp_path: Path) -> None:
    path = written(tmp_path).path
    path.write_text(path.read_text().replace("{topic: users}", "{topics: [eu, us]}"))
    eu, us = (parse_pipeline(path).of_topic(topic) for topic in ("eu", "us"))
    with transaction(session) as cursor:
        ensure_target(cursor, eu)
        cursor.execute("ALTER TABLE public.users ADD UNIQUE (email)")
    send(session, eu, User(0, 1, "a"), User(1, 2, "b"))
    send(session, us, User(2, 3, "a"), User(3, 1, "c"), User(4, 3, "b"), User(5, 4, "c"))
    assert emails(session) == {1: "c", 2: "b"}
    assert set(quarantined(session)) == {0, 2, 3}
    assert verify(eu)[0] == verify(us)[0] == []


def test_exclusion_constraints_are_named_as_what_is_not_quarantined(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path)
    create(session, ", EXCLUDE (email WITH =)")
    assert "the exclusion constraint users_email_excl: a row" in compare_table(pipeline)[1]
    with pytest.raises(LedgerViolation, match="on_conflict is about unique constraints alone"):
        send(session, pipeline, User(0, 1, "a"), User(1, 2, "a"))


def test_a_partitioned_table_has_such_constraints_too(session: Session, tmp_path: Path) -> None:
    pipeline = written(tmp_path)
    create(
        session,
        ", UNIQUE (email, id)",
        "DROP TABLE public.users;"
        + TABLE.format(age="integer", unique="").replace("id bigint PRIMARY KEY", "id bigint NOT NULL").strip()
        + " PARTITION BY LIST (_deleted);"
        "CREATE UNIQUE INDEX ON public.users (id, _deleted);"
        "CREATE UNIQUE INDEX by_email ON public.users (email, _deleted);"
        "CREATE TABLE public.users_there PARTITION OF public.users FOR VALUES IN (false);"
        "CREATE TABLE public.users_gone PARTITION OF public.users FOR VALUES IN (true)",
    )
    send(session, pipeline, User(0, 1, "a"), User(1, 2, "a"), User(2, 3, "b"), User(3, 3, deleted=True))
    assert emails(session) == {1: "a"}
    assert set(quarantined(session)) == {1}
    assert verify(pipeline)[0] == []


@pytest.mark.parametrize("on_conflict", ["fail", "quarantine"])
@pytest.mark.parametrize(
    ("users", "advice"),
    [
        ([User(0, 1, "a"), User(1, 2, "a")], "correct the row that has the values"),
        ([User(0, 1, "a", age=1)], "insert the row that they refer to"),
    ],
    ids=["unique", "foreign"],
)
def test_what_a_constraint_of_a_single_partition_refuses_waits_for_no_other_batch(
    session: Session, tmp_path: Path, users: list[User], advice: str, on_conflict: str
) -> None:
    create(
        session,
        more="DROP TABLE public.users; CREATE TABLE public.ages (age integer PRIMARY KEY);"
        + TABLE.format(age="integer", unique="").replace("id bigint PRIMARY KEY", "id bigint NOT NULL").strip()
        + " PARTITION BY LIST (_deleted); CREATE UNIQUE INDEX ON public.users (id, _deleted);"
        "CREATE TABLE public.users_there PARTITION OF public.users FOR VALUES IN (false);"
        "ALTER TABLE public.users_there ADD UNIQUE (email), ADD FOREIGN KEY (age) REFERENCES public.ages",
    )
    with pytest.raises(LedgerViolation) as caught:
        send(session, written(tmp_path, on_conflict), *users)
    expected = f"; {advice}, or drop the constraint: target.on_conflict cannot find the records that break it"
    assert str(caught.value).endswith(expected)


def test_columns_may_have_any_name(session: Session, tmp_path: Path) -> None:
    path = written(tmp_path).path
    text = path.read_text().replace(
        "key: {id: bigint}", "key: {place: {type: bigint, path: $.id}, rank: {type: text, value: r}}"
    )
    text = text.replace("email: {", "run: {path: $.email, ").replace("name: {", "loses: {path: $.name, ")
    path.write_text(text)
    pipeline = parse_pipeline(path)
    with transaction(session) as cursor:
        ensure_target(cursor, pipeline)
        cursor.execute("CREATE UNIQUE INDEX of_run ON public.users (run, loses)")
    send(session, pipeline, User(0, 1, "a", "x"), User(1, 2, "a", "x"), User(2, 3, "a", "y"))
    assert rows(session, "SELECT place, run, loses FROM public.users ORDER BY 1") == [[1, "a", "x"], [3, "a", "y"]]
    assert quarantined(session)[1] == [
        ("conflict", "run, loses", "of_run keeps rows apart: (run, loses) = (a, x) is that of event 1, r")
    ]


class Bench(TopicBench):
    TEMPLATE = """
pipeline: users
source: {{topic: {topic}}}
record:
  event_id: $.id
  publish_at: kafka_timestamp
  tombstone: skip
  columns: {{day: date, email: text}}
target: {{table: orders, on_conflict: quarantine, partitions: {{every: day, by: day}}}}
quality: {{max_quarantined_share: 1.0}}
stage: {{engine: process}}
"""


def test_the_topic_and_a_partitioned_table_with_conflicts_agree(bench: Bench) -> None:
    def sale(moment: int, id: str, day: str, email: str) -> Record:
        return Record(b"k", json.dumps({"id": id, "day": day, "email": email}).encode(), (), moment, 0)

    bench.publish(sale(1, "a", "2026-01-01", "x"), sale(2, "b", "2026-01-01", "y"))
    bench.ingest()
    bench.execute("CREATE UNIQUE INDEX one_a_day ON public.orders (email, day)")
    bench.publish(
        *(sale(3, "a", "2026-01-02", "x"), sale(4, "c", "2026-01-01", "y"), sale(5, "b", "2026-01-02", "y")),
        *(sale(6, "b", "2026-01-02", "x"), sale(7, "d", "2026-01-03", "x")),
    )
    (done,) = bench.ingest()
    assert (done.total.updated, done.total.inserted, done.total.quarantined) == (2, 1, 2)
    states = [("a", "2026-01-02", "x"), ("b", "2026-01-02", "y"), ("d", "2026-01-03", "x")]
    assert sorted(bench.rows("event_id, day::text, email")) == states
    bench.agree()


def test_random_batches_leave_no_record_without_a_place(session: Session, tmp_path: Path, few: bool) -> None:
    """Each record is the state of its key, older than that, or in quarantine because another row has its values."""
    pipeline = written(tmp_path)
    for seed in range(3 if few else 12):
        rng = random.Random(seed)
        do(session, "DROP TABLE IF EXISTS public.users; SELECT tests.empty_ledger()")
        create(session, ", UNIQUE (email), UNIQUE (name)")
        sent, before = list[User](), set[tuple[Any, ...]]()
        for _ in range(3):
            batch = [random_user(rng) for _ in range(rng.randint(1, 9))]
            send(session, pipeline, *batch, start=len(sent))
            sent += batch
            refused = quarantined(session)
            states = {tuple(row) for row in rows(session, "SELECT id, email, name, _offset FROM public.users")}
            left = sorted((u.seconds, offset, u.id) for offset, u in enumerate(sent) if offset not in refused)
            assert {(id, offset) for id, _, _, offset in states} == {
                (id, offset) for id, offset in {id: offset for _, offset, id in left}.items()
            }, seed
            for offset in refused:
                user = sent[offset]
                assert not user.deleted
                if offset >= len(sent) - len(batch):
                    others = [row for row in before | states if row[0] != user.id]
                    assert any(user.email == row[1] or (user.name and user.name == row[2]) for row in others), seed
            before = states
        assert verify(pipeline)[0] == []
        send(session, pipeline, *sent, kind=BatchKind.REPLAY)
        assert verify(pipeline)[0] == []


def random_user(rng: random.Random) -> User:
    return User(
        rng.randrange(20), rng.randrange(4), rng.choice("abc"), rng.choice([None, "x", "y"]), rng.random() < 0.1
    )
