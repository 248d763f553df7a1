"""``on_conflict: quarantine`` judges rows as they would be written: with what fills itself, without those that go."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.errors import LedgerViolation, TargetMismatch
from offset_ledger.model.balance_sheet import Dispositions
from offset_ledger.operations.repair.verify import verify
from offset_ledger.outside.connections import Connection, environment_name
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import Session, rows, transaction
from offset_ledger.postgres.table.change import ensure_target
from offset_ledger.steps.run.ingest import run_batch
from offset_ledger.steps.run.redrive import parse_choice, plan_redrive
from offset_ledger_kit.cli.main import main
from tests.fixtures.raw import Raw, commit_raw
from tests.fixtures.staged import ME, NOON
from tests.fixtures.tables import do, pipeline_of

PIPELINE = """
pipeline: users
source: {{topic: users}}
record:
  key: {{id: {key}}}
  publish_at: $.at
  delete_when: {{path: $.op, equals: d}}
  columns: {{email: {{type: text, nullable: true}}}}
target: {{table: public.users, on_conflict: {on_conflict}, merge: {merge}, bookkeeping: {bookkeeping}}}
quality: {{max_quarantined_share: 1.0}}
"""
BOOKKEEPING = """, publish_at timestamptz NOT NULL, _partition integer NOT NULL, _offset bigint NOT NULL,
  _timestamp timestamptz, _key bytea, _headers jsonb, _deleted boolean NOT NULL, _batch_id bigint NOT NULL"""
PLACES = ("columns", "beside")
BOTH = pytest.mark.parametrize("bookkeeping", PLACES)


def written(
    folder: Path, bookkeeping: str, key: str = "bigint", on_conflict: str = "quarantine", merge: str = "newest_wins"
) -> Pipeline:
    return pipeline_of(folder, PIPELINE, key=key, bookkeeping=bookkeeping, on_conflict=on_conflict, merge=merge)


def create(
    session: Session, bookkeeping: str, more: str, after: str = "", key: str = "bigint", email: str = "text"
) -> None:
    of_rows = BOOKKEEPING if bookkeeping == "columns" else ""
    do(session, f"CREATE TABLE public.users (id {key} NOT NULL UNIQUE, email {email}{of_rows}{more}); {after}")


def record(offset: int, id: Any, email: str | None = None, deleted: bool = False) -> Raw:
    at = (NOON + timedelta(seconds=offset)).isoformat()
    return Raw(0, offset, json.dumps({"id": id, "at": at, "op": "d" if deleted else "c", "email": email}).encode())


def send(session: Session, pipeline: Pipeline, *records: Raw) -> Dispositions:
    return commit_raw(session, pipeline, records).total


def emails(session: Session, columns: str = "id, email") -> set[tuple[Any, ...]]:
    live = "to_jsonb(u)->>'_deleted' IS DISTINCT FROM 'true'"
    return {tuple(row) for row in rows(session, f"SELECT {columns} FROM public.users AS u WHERE {live}")}


def refused(session: Session) -> dict[int, str]:
    """The reason of each record that waits in quarantine."""
    query = "SELECT \"offset\", reasons->0->>'code' FROM offset_ledger.quarantine WHERE resolved_by IS NULL"
    return {row[0]: row[1] for row in rows(session, query)}


# -- what fills itself -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Filled:
    """Columns of the user's own that fill themselves, and a unique constraint that looks at them.

    ``frees`` is a value of the user's own with which a row is no part of the others any more.
    """

    columns: str
    index: str = ""
    frees: str = "own = 'p'"


CONSTANT = {
    "default in a predicate": Filled(
        ", active boolean DEFAULT true",
        "CREATE UNIQUE INDEX own ON public.users (email) WHERE active",
        "active = false",
    ),
    "default in a predicate of NULL": Filled(
        ", own text DEFAULT 'o'",
        "CREATE UNIQUE INDEX own ON public.users (email) WHERE own IS NOT NULL",
        "own = NULL",
    ),
    "default": Filled(", own text DEFAULT 'o', CONSTRAINT own UNIQUE (email, own)"),
    "default that is computed": Filled(", own text NOT NULL DEFAULT lower('O'), CONSTRAINT own UNIQUE (own, email)"),
    "default of a domain": Filled(", own public.own, CONSTRAINT own UNIQUE (email, own)"),
    "default in an expression": Filled(
        ", own text DEFAULT 'o'", "CREATE UNIQUE INDEX own ON public.users ((own || email))"
    ),
    "default in a generated column": Filled(
        ", own text DEFAULT 'o', made text GENERATED ALWAYS AS (own || email) STORED, CONSTRAINT own UNIQUE (made)"
    ),
}


@BOTH
@pytest.mark.parametrize("filled", CONSTANT.values(), ids=CONSTANT)
def test_a_constant_default_is_part_of_the_row_that_is_judged(
    session: Session, tmp_path: Path, bookkeeping: str, filled: Filled
) -> None:
    pipeline = written(tmp_path, bookkeeping)
    do(session, "CREATE DOMAIN public.own AS text DEFAULT 'o'")
    create(session, bookkeeping, filled.columns, filled.index)
    send(session, pipeline, record(0, 1, "a"))
    done = send(session, pipeline, record(1, 2, "a"), record(2, 3, "b"), record(3, 4, "b"))
    assert (done.inserted, done.quarantined) == (1, 2)
    assert refused(session) == {1: "conflict", 3: "conflict"}
    assert emails(session) == {(1, "a"), (3, "b")}
    assert verify(pipeline)[0] == []

    do(session, f"UPDATE public.users SET {filled.frees} WHERE id = 1")
    run_batch(pipeline, plan_redrive(pipeline, parse_choice(), ME), ME, lambda _: None)
    send(session, pipeline, record(4, 1, "b"))
    assert refused(session) == {3: "conflict"}
    assert emails(session) == {(1, "b"), (2, "a"), (3, "b")}
    assert verify(pipeline)[0] == []


VOLATILE = {
    "identity in an expression": Filled(
        ", n bigint GENERATED ALWAYS AS IDENTITY", "CREATE UNIQUE INDEX own ON public.users (email, (n / 1000))"
    ),
    "identity in a predicate": Filled(
        ", n bigint GENERATED BY DEFAULT AS IDENTITY", "CREATE UNIQUE INDEX own ON public.users (email) WHERE n > 0"
    ),
    "sequence in an expression": Filled(", n bigserial", "CREATE UNIQUE INDEX own ON public.users (email, (n / 1000))"),
    "volatile default": Filled(", n double precision DEFAULT floor(random()), CONSTRAINT own UNIQUE (email, n)"),
    "volatile default in a generated column": Filled(
        ", n double precision DEFAULT random(), made double precision GENERATED ALWAYS AS (floor(n)) STORED,"
        " CONSTRAINT own UNIQUE (email, made)"
    ),
}


@pytest.mark.parametrize(("bookkeeping", "filled"), zip(cycle(PLACES), VOLATILE.values(), strict=False), ids=VOLATILE)
def test_a_constraint_over_what_nobody_can_foretell_is_named_before_anything_is_staged(
    session: Session,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    bookkeeping: str,
    filled: Filled,
) -> None:
    away = Connection("kafka_default", "kafka", extra={"bootstrap.servers": "127.0.0.1:1"})
    monkeypatch.setenv(environment_name(away.conn_id), away.to_json())
    failing = written(tmp_path, bookkeeping, on_conflict="fail")
    create(session, bookkeeping, filled.columns, filled.index)
    send(session, failing, record(0, 1, "a"))
    with pytest.raises(LedgerViolation, match='unique constraint "own"'):
        send(session, failing, record(1, 2, "a"))
    do(session, "SELECT tests.empty_ledger()")

    pipeline = written(tmp_path, bookkeeping)
    with transaction(session) as cursor, pytest.raises(TargetMismatch, match=r"\bown\b") as caught:
        ensure_target(cursor, pipeline)
    assert re.search(r"\b(n|made)\b", str(caught.value))
    assert "\n" not in str(caught.value)
    assert main(["check", str(pipeline.path)]) == 1
    assert str(caught.value) in capsys.readouterr().err
    with pytest.raises(TargetMismatch):
        send(session, pipeline, record(1, 2, "a"))
    assert rows(session, "SELECT batch_id FROM offset_ledger.batch") == []
    assert emails(session) == {(1, "a")}


@BOTH
@pytest.mark.parametrize(
    "key", ["n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "n uuid DEFAULT gen_random_uuid() PRIMARY KEY"]
)
def test_a_key_of_the_users_own_that_fills_itself_conflicts_with_nothing(
    session: Session, tmp_path: Path, bookkeeping: str, key: str
) -> None:
    pipeline = written(tmp_path, bookkeeping)
    create(
        session,
        bookkeeping,
        f", {key}, active boolean DEFAULT true",
        "CREATE UNIQUE INDEX own ON public.users (email) WHERE active",
    )
    send(session, pipeline, record(0, 1, "a"), record(1, 2, "b"))
    send(session, pipeline, record(2, 3, "a"), record(3, 4, "c"))
    assert refused(session) == {2: "conflict"}
    assert emails(session) == {(1, "a"), (2, "b"), (4, "c")}
    assert verify(pipeline)[0] == []


# -- a delete that writes no row -------------------------------------------------------------------------------

OF_NULLS = {
    "NULLS NOT DISTINCT": Filled(", UNIQUE NULLS NOT DISTINCT (email)"),
    "expression": Filled("", "CREATE UNIQUE INDEX ON public.users (coalesce(email, ''))"),
    "predicate": Filled(", own integer DEFAULT 1", "CREATE UNIQUE INDEX ON public.users (own) WHERE email IS NULL"),
}


@pytest.mark.parametrize(
    ("name", "merge"),
    [
        *((name, "newest_wins") for name in OF_NULLS),
        *((name, "skip_existing") for name in ("NULLS NOT DISTINCT", "expression")),
    ],
)
def test_a_delete_beside_writes_no_row_and_so_conflicts_with_none(
    session: Session, tmp_path: Path, name: str, merge: str
) -> None:
    pipeline = written(tmp_path, "beside", merge=merge)
    create(session, "beside", OF_NULLS[name].columns, OF_NULLS[name].index)
    send(session, pipeline, record(0, 1, None), record(1, 2, "b"), record(2, 3, "c"))
    done = send(session, pipeline, record(3, 2, deleted=True), record(4, 9, deleted=True))
    assert refused(session) == {}
    newest = merge == "newest_wins"
    assert done.deleted == (2 if newest else 1)
    assert emails(session) == {(1, None), (3, "c")} | (set() if newest else {(2, "b")})
    assert verify(pipeline)[0] == []


@pytest.mark.parametrize("unique", ["UNIQUE (email)", "UNIQUE NULLS NOT DISTINCT (email)"])
def test_a_row_that_a_batch_deletes_beside_gives_its_values_up(session: Session, tmp_path: Path, unique: str) -> None:
    pipeline = written(tmp_path, "beside")
    create(session, "beside", f", {unique}")
    send(session, pipeline, record(0, 1, "a"), record(1, 2, "b"))
    send(session, pipeline, record(2, 2, deleted=True), record(3, 3, "b"), record(4, 4, "b"))
    assert refused(session) == {4: "conflict"}
    assert emails(session) == {(1, "a"), (3, "b")}
    assert verify(pipeline)[0] == []


# -- collations that take different texts for equal ------------------------------------------------------------

ANY_CASE = "text COLLATE public.any_case"


@pytest.fixture
def ignores_case(session: Session, any_case: None) -> None:  # noqa: ARG001
    """A collation that takes "a" and "A" for equal; skips where the server has none."""
    if not rows(session, "SELECT 'a' = 'A' COLLATE public.any_case")[0][0]:
        pytest.skip("the server has no ICU")


@pytest.mark.usefixtures("ignores_case")
@BOTH
@pytest.mark.parametrize(
    "kinds", [("text", ANY_CASE), (ANY_CASE, ANY_CASE), (ANY_CASE, "text")], ids=["value", "both", "key"]
)
def test_texts_that_a_collation_takes_for_equal_conflict(
    session: Session, tmp_path: Path, bookkeeping: str, kinds: Sequence[str]
) -> None:
    key, email = kinds
    pipeline = written(tmp_path, bookkeeping, key="text")
    create(session, bookkeeping, ", UNIQUE (email)", key=key, email=email)
    send(session, pipeline, record(0, "k", "Ada"), record(1, "l", "Eva"))
    taken = "ADA" if email == ANY_CASE else "Ada"
    done = send(session, pipeline, record(2, "m", taken), record(3, "n", "Ida"), record(4, "L", "new"))
    same = key == ANY_CASE
    assert refused(session) == {2: "conflict"}
    assert (done.inserted, done.updated, done.quarantined) == ((1, 1, 1) if same else (2, 0, 1))
    states = {("k", "Ada"), ("l", "new"), ("n", "Ida"), *([] if same else [("l", "Eva")])}
    assert emails(session, 'lower(id COLLATE "C"), email') == states
    ((detail,),) = rows(session, "SELECT reasons->0->>'detail' FROM offset_ledger.quarantine")
    assert detail.endswith(f"(email) = ({taken}) is that of event k")
    assert verify(pipeline)[0] == []


@pytest.mark.usefixtures("ignores_case")
@BOTH
def test_a_violation_of_such_a_collation_names_its_records(session: Session, tmp_path: Path, bookkeeping: str) -> None:
    pipeline = written(tmp_path, bookkeeping, key="text", on_conflict="fail")
    create(session, bookkeeping, ", UNIQUE (email)", key=ANY_CASE, email=ANY_CASE)
    send(session, pipeline, record(0, "k", "Ada"))
    with pytest.raises(LedgerViolation, match="1 record: users 0:1"):
        send(session, pipeline, record(1, "l", "ADA"))
    assert emails(session) == {("k", "Ada")}
