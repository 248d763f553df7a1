"""Redrive: exactly what passes today comes in, once, under the same order; the rest keeps its history."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from psycopg2 import errors as pg

from offset_ledger.base.failpoints import VARIABLE, Failpoint
from offset_ledger.errors import BatchRejected, ConfigurationError, IncompleteStaging, StateConflict
from offset_ledger.model.states import State
from offset_ledger.operations.repair.verify import verify
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.postgres.ledger.database import connect, rows
from offset_ledger.postgres.ledger.decisions import decide
from offset_ledger.postgres.ledger.redrive import RedriveChoice
from offset_ledger.steps.commit.step import commit
from offset_ledger.steps.plan.step import PlannedBatch
from offset_ledger.steps.run import redrive as step
from offset_ledger.steps.run.ingest import run_batch
from offset_ledger.steps.run.redrive import list_quarantined, parse_choice, plan_redrive, stage_redrive
from offset_ledger_kit.cli.main import main
from offset_ledger_kit.publishing.topics import create_topic
from offset_ledger_kit.sandbox.stack import Stack
from tests.fixtures.raw import Raw, arrow
from tests.fixtures.servers import Servers
from tests.fixtures.staged import ME
from tests.fixtures.topic_bench import quiet
from tests.integration.operations.repair.repair_bench import Bench, Place, order


@pytest.fixture(scope="module", autouse=True)
def topic(stack: Stack) -> None:
    """The topic that the records are said to come from: the mirror of the cursors would wait for it."""
    create_topic({"bootstrap.servers": stack.kafka.bootstrap}, "orders.redriven", 4, 1)


@pytest.fixture
def bench(servers: Servers, tmp_path: Path) -> Iterator[Bench]:
    with connect(servers.postgres) as session:
        yield Bench(tmp_path, session)


def seeded(bench: Bench) -> None:
    """Two broken events, one with too many decimals, and two whose state the rule refuses."""
    bench.rule("new")
    bench.commit(
        Raw(0, 0, order("a", 1)),
        Raw(0, 1, b"{"),
        Raw(0, 2, order("b", 1, "paid")),
        Raw(0, 3, order("c", 1, amount=1.005)),
        Raw(0, 4, order("d", 1)),
        Raw(1, 0, order("e", 1, "lost")),
        Raw(1, 1, b"\xff"),
    )


RULE = "expect_column_values_to_be_in_set"


def test_after_a_rule_was_loosened_exactly_the_fixed_records_come_in(bench: Bench) -> None:
    seeded(bench)
    refused = {(0, 1): ["syntax"], (0, 2): [RULE], (0, 3): ["precision"], (1, 0): [RULE], (1, 1): ["encoding"]}
    assert bench.reasons() == refused
    bench.rule("new", "paid")
    done = bench.redrive()
    assert bench.table() == {"a": ("new", 0, 0), "d": ("new", 0, 4), "b": ("paid", 0, 2)}
    assert bench.quarantine() == {(0, 1): None, (0, 2): done.batch.batch_id, (0, 3): None, (1, 0): None, (1, 1): None}
    assert [(p, s.inserted, s.quarantined, s.skipped, s.total) for p, s in done.sheet.items()] == [
        (0, 1, 2, 0, 3),
        (1, 0, 2, 0, 2),
    ]
    assert verify(bench.pipeline)[0] == []


def test_what_fails_again_keeps_its_old_reasons_with_the_new_ones(bench: Bench) -> None:
    seeded(bench)
    bench.rule("paid")
    bench.amount, again = "numeric(12,3)", {(0, 3): [RULE]}
    bench.execute("ALTER TABLE public.orders ALTER amount TYPE numeric(12,3)")
    batch_id = bench.redrive(reason="precision").batch.batch_id
    assert bench.reasons("retried_reasons") == again
    assert bench.reasons("reasons")[0, 3] == ["precision"]
    attempt = rows(bench.session, "SELECT batch_id, outcome, reasons->0->>'code' FROM offset_ledger.redrive_record")
    assert [tuple(row) for row in attempt] == [(batch_id, "refused", RULE)]
    bench.rule("new")
    assert plan_redrive(bench.pipeline, RedriveChoice(reason="precision"), ME).batch is None
    bench.redrive(reason=RULE)
    assert bench.table()["c"] == ("new", 0, 3)
    assert bench.reasons("retried_reasons") == {**again, (0, 2): [RULE], (1, 0): [RULE]}
    assert verify(bench.pipeline)[0] == []


def test_an_older_record_does_not_overwrite_a_newer_row_and_is_resolved(bench: Bench) -> None:
    bench.rule("new")
    bench.commit(Raw(0, 0, order("a", 1, "paid")), Raw(0, 1, order("a", 2)), Raw(0, 2, order("b", 3, "paid")))
    bench.commit(Raw(0, 3, order("b", 2)), Raw(0, 4, order("c", 1)))
    bench.rule("new", "paid")
    done = bench.redrive()
    assert bench.table() == {"a": ("new", 0, 1), "b": ("paid", 0, 2), "c": ("new", 0, 4)}
    assert (done.total.superseded, done.total.updated, done.total.skipped, done.total.total) == (1, 1, 1, 3)
    assert set(bench.quarantine().values()) == {done.batch.batch_id}
    assert verify(bench.pipeline)[0] == []


def test_the_bytes_are_those_that_kafka_gave(bench: Bench) -> None:
    headers = (("trace", b"\x00\xff"), ("tenant", "Zürich".encode()), ("empty", b""), ("null", None), ("nul\x00", b"x"))
    far = 300_000_000_000_000  # milliseconds: in the year 11476, which no datetime of Python's can hold
    bench.state = "varchar(1)"
    bench.commit(
        Raw(0, 0, order("a", 1, "é"), b"\x00\xfe", headers, far),
        Raw(0, 1, order("b", 1, "ab"), None, headers[:1]),
        Raw(0, 2, order("c", 1, "ac"), b"\x00\xfe", headers, far),
        Raw(0, 3, None),
    )
    bench.state, bench.tombstone = "varchar(2)", "skip"
    bench.execute("ALTER TABLE public.orders ALTER state TYPE varchar(2)")
    done = bench.redrive()
    kept = "SELECT _key, _headers, _timestamp::text FROM public.orders WHERE event_id = %s"
    staged_by_kafka, redriven = (rows(bench.session, kept, [event_id])[0] for event_id in "ac")
    assert [bytes(redriven[0]), *redriven[1:]] == [bytes(staged_by_kafka[0]), *staged_by_kafka[1:]]
    assert rows(bench.session, kept, ["b"])[0][0] is None
    assert (done.total.inserted, done.total.skipped) == (2, 1)
    assert set(bench.quarantine().values()) == {done.batch.batch_id}


def test_the_balance_sheet_counts_the_offsets_between_as_skipped(bench: Bench) -> None:
    bench.rule("new")
    bench.commit(*(Raw(0, n, order(f"e{n}", 1, "paid" if n in (2, 7) else "new")) for n in range(9)))
    bench.rule("new", "paid")
    done = bench.redrive()
    assert [str(r) for r in done.batch.ranges] == ["0:[2, 8)"]
    assert (done.total.inserted, done.total.skipped, done.total.gap) == (2, 4, 0)
    assert verify(bench.pipeline)[0] == []


# -- choosing --------------------------------------------------------------------------------------------------


def test_reason_since_and_limit_choose(bench: Bench) -> None:
    seeded(bench)
    bench.execute("UPDATE offset_ledger.quarantine SET quarantined_at = now() - interval '1 day' WHERE partition = 0")
    recent = datetime.now(UTC) - timedelta(hours=1)

    def chosen(**choice: Any) -> set[Place]:
        batch_id = bench.plan(**choice).batch_id
        query = (
            'SELECT partition, "offset" FROM offset_ledger.redrive_record JOIN offset_ledger.quarantine'
            " USING (quarantine_id) WHERE redrive_record.batch_id = %s"
        )
        found = {(row[0], row[1]) for row in rows(bench.session, query, [batch_id])}
        decide(bench.session, batch_id, State.ABANDONED, ME, "only looking")
        return found

    assert chosen(reason=RULE) == {(0, 2), (1, 0)}
    assert chosen(since=recent) == {(1, 0), (1, 1)}
    assert chosen(since=recent, reason=RULE) == {(1, 0)}
    assert len(chosen(limit=2)) == 2
    assert len(chosen()) == 5
    assert verify(bench.pipeline)[0] == []


def test_a_limit_comes_to_every_record_in_the_end(bench: Bench) -> None:
    seeded(bench)
    for _ in range(3):
        bench.redrive(limit=2)
    assert len(bench.reasons("retried_reasons")) == 5


def test_the_listing_counts_by_reason_and_shows_coordinates(bench: Bench) -> None:
    seeded(bench)
    bench.plan(reason="syntax")
    whole, *lines = list_quarantined(bench.pipeline, RedriveChoice(limit=1))
    assert (whole["records"], whole["in_redrive"], whole["code"]) == (5, 1, None)
    assert [(line["code"], line["path"], line["records"], line["examples"]) for line in lines] == [
        (RULE, "state", 2, ["0:2"]),
        ("encoding", "$", 1, ["1:1"]),
        ("precision", "$.amount", 1, ["0:3"]),
        ("syntax", "$", 1, ["0:1"]),
    ]
    assert [line["records"] for line in list_quarantined(bench.pipeline, RedriveChoice(limit=1), resolved=True)] == [0]


@pytest.mark.parametrize(
    ("asked", "says"),
    [({"since": "2026-01-01"}, "ISO 8601"), ({"since": "soon"}, "ISO 8601"), ({"limit": 0}, "below 1")],
)
def test_a_choice_that_cannot_be_meant_is_refused(asked: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        parse_choice(**asked)


def test_a_pipeline_that_never_ran_has_nothing_to_redrive(bench: Bench) -> None:
    with pytest.raises(ConfigurationError, match="not in this ledger"):
        plan_redrive(bench.pipeline, RedriveChoice(), ME)


def test_the_verbs_say_what_they_found(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    seeded(bench)
    path = str(bench.pipeline.path)
    assert main(["quarantine", "list", path, "--reason", RULE, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["records"], told["reasons"][0]["examples"]) == (2, ["0:2", "1:0"])
    bench.rule("new", "paid")
    assert main(["quarantine", "retry", path, "--reason", RULE, "--why", "paid is right", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["batch_id"], told["counts"]["inserted"], told["counts"]["quarantined"]) == (2, 1, 1)
    assert rows(bench.session, "SELECT why FROM offset_ledger.batch_event WHERE batch_id = 2 LIMIT 1")[0][0] == (
        "paid is right"
    )
    assert main(["quarantine", "retry", path, "--reason", "nothing"]) == 0
    assert "nothing is to redrive" in capsys.readouterr().out
    assert main(["quarantine", "list", path]) == 0
    assert capsys.readouterr().out.endswith("4 unresolved records\n")
    assert main(["quarantine", "deliver", path]) == 0
    assert capsys.readouterr().out == "0 dead letters published\n"
    assert main(["quarantine", "retry", path, "--since", "yesterday"]) == 2
    assert "should be ISO 8601 with a zone" in capsys.readouterr().err


# -- open batches ----------------------------------------------------------------------------------------------


def test_an_open_batch_is_resumed_with_the_very_records_it_was_planned_with(bench: Bench) -> None:
    seeded(bench)
    first = bench.plan()
    bench.commit(Raw(1, 2, b"["))
    again = plan_redrive(bench.pipeline, RedriveChoice(), ME)
    assert again.batch is not None
    assert (again.resumed, again.batch.batch_id, again.batch.ranges) == (True, first.batch_id, first.ranges)
    bench.rule("new", "paid", "lost")
    assert bench.redrive().batch.batch_id == first.batch_id
    assert bench.reasons("retried_reasons") == {(0, 1): ["syntax"], (0, 3): ["precision"], (1, 1): ["encoding"]}


def test_a_record_is_in_one_open_redrive_only_and_the_second_says_which_has_it(bench: Bench) -> None:
    seeded(bench)
    first = bench.plan(reason=RULE)
    with pytest.raises(StateConflict, match=f"2 in open batch {first.batch_id}; run that redrive again"):
        plan_redrive(bench.pipeline, RedriveChoice(reason=RULE, limit=5), ME)
    rest = plan_redrive(bench.pipeline, RedriveChoice(), ME)
    assert rest.message.endswith(f"3 records, 0 left for later; left out: 2 in open batch {first.batch_id}")
    assert rest.batch is not None
    with pytest.raises(pg.UniqueViolation, match="redrive_record_one_open"):
        bench.execute(
            f"INSERT INTO offset_ledger.redrive_record SELECT {rest.batch.batch_id}, quarantine_id FROM"
            f" offset_ledger.redrive_record WHERE batch_id = {first.batch_id}"
        )
    bench.session.rollback()
    decide(bench.session, first.batch_id, State.ABANDONED, ME, "not now")
    bench.rule("new", "paid", "lost")
    done = bench.redrive(reason=RULE)
    assert {place for place, by in bench.quarantine().items() if by == done.batch.batch_id} == {(0, 2), (1, 0)}
    run_batch(bench.pipeline, rest, ME, quiet)
    assert verify(bench.pipeline)[0] == []


def test_a_rejected_redrive_waits_for_a_person(bench: Bench) -> None:
    seeded(bench)
    bench.rule("new", action="reject")
    with pytest.raises(BatchRejected, match="rows fail"):
        bench.redrive(reason=RULE)
    with pytest.raises(BatchRejected, match="needs approval"):
        bench.redrive(reason=RULE)
    assert bench.quarantine()[0, 2] is None
    (batch_id,) = rows(bench.session, "SELECT max(batch_id) FROM offset_ledger.batch")[0]
    decide(bench.session, batch_id, State.VALIDATED, ME, "they are right")
    assert bench.redrive(reason=RULE).batch.batch_id == batch_id
    assert {place for place, by in bench.quarantine().items() if by == batch_id} == {(0, 2), (1, 0)}
    assert verify(bench.pipeline)[0] == []


def test_a_quarantined_share_does_not_reject_a_redrive(bench: Bench) -> None:
    seeded(bench)
    text = bench.pipeline.path.read_text().replace("max_quarantined_share: 1.0", "max_quarantined_share: 0.0")
    bench.pipeline.path.write_text(text)
    strict = parse_pipeline(bench.folder / "pipeline.yaml")
    done = run_batch(strict, plan_redrive(strict, RedriveChoice(), ME), ME, quiet).committed
    assert done.total.quarantined == 5


def test_a_committed_redrive_is_not_staged_again(bench: Bench) -> None:
    seeded(bench)
    done = bench.redrive()
    assert stage_redrive(bench.pipeline, done.batch.batch_id, ME).done
    assert commit(bench.pipeline, done.batch.batch_id, ME).already
    assert bench.plan().batch_id > done.batch.batch_id  # they failed and may be tried again


# -- faults ----------------------------------------------------------------------------------------------------


@pytest.fixture
def killed(bench: Bench) -> Callable[[str], None]:
    """Run the verb in a process of its own, which dies at the place."""

    def run(place: str) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "offset_ledger_kit.cli", "quarantine", "retry", str(bench.pipeline.path)],
            env={**os.environ, VARIABLE: f"{place}=kill"},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == -signal.SIGKILL, done.stderr

    return run


@pytest.mark.parametrize("place", [Failpoint.SLICE_COPIED, Failpoint.AFTER_MERGE, Failpoint.AFTER_COMMIT])
def test_a_killed_redrive_resolves_each_record_once(
    bench: Bench, killed: Callable[[str], None], place: Failpoint
) -> None:
    bench.state = "varchar(3)"
    bench.commit(*(Raw(p, n, order(f"{p}-{n}", 1, "paid" if n % 2 else "new")) for p in (0, 1) for n in range(6)))
    bench.state = "text"
    bench.execute("ALTER TABLE public.orders ALTER state TYPE text")
    killed(place)
    resolved = {(p, n): 2 for p in (0, 1) for n in (1, 3, 5)}
    if place is Failpoint.AFTER_COMMIT:
        assert plan_redrive(bench.pipeline, RedriveChoice(), ME).batch is None
    else:
        assert bench.quarantine() == dict.fromkeys(resolved)
        bench.redrive()
    assert bench.quarantine() == resolved
    assert {place[1:] for place in bench.table().values()} == {(p, n) for p in (0, 1) for n in range(6)}
    assert verify(bench.pipeline)[0] == []


def test_records_are_read_a_bounded_number_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.commit(*(Raw(0, n, b"x" * n) for n in range(9)))
    batch_id = bench.plan().batch_id
    monkeypatch.setattr(step, "MAX_RECORDS", 4)
    monkeypatch.setattr(step, "MAX_BYTES", 12)
    read = list(step.read_records(bench.session, batch_id, 0))
    assert [batch.column("offset").to_pylist() for batch in read] == [[0, 1, 2, 3], [4, 5, 6], [7, 8]]
    assert [len(value) for batch in read for value in batch.column("value").to_pylist()] == list(range(9))


@pytest.mark.parametrize(
    ("tampering", "found"),
    [
        ("UPDATE offset_ledger.quarantine SET resolved_by = 1 WHERE partition = 1", "is no committed redrive"),
        (
            "UPDATE offset_ledger.quarantine SET resolved_by = NULL WHERE resolved_by IS NOT NULL",
            "holds it as resolved",
        ),
        ("UPDATE offset_ledger.redrive_record SET outcome = NULL WHERE outcome = 'resolved'", "holds it as open"),
        ("UPDATE public.orders SET _batch_id = 2 WHERE event_id = 'a'", "does not hold that record"),
    ],
)
def test_verify_finds_what_does_not_add_up(bench: Bench, tampering: str, found: str) -> None:
    seeded(bench)
    bench.rule("new", "paid")
    bench.redrive()
    assert verify(bench.pipeline)[0] == []
    bench.execute(tampering)
    violations = [line for line in verify(bench.pipeline)[0] if line.startswith("invariant 10 ")]
    assert any(found in line for line in violations), verify(bench.pipeline)


@pytest.mark.parametrize("given", [(0, 1), (0, 2, 2), (2, 0), (0, 1, 2), (1, 2)], ids=str)
def test_a_redrive_that_reads_other_records_than_the_chosen_ones_is_refused(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, given: tuple[int, ...]
) -> None:
    found = [order(f"{n}", n, amount=0.125) for n in range(4)]
    bench.commit(*(Raw(0, n, b"{" if n == 1 else each) for n, each in enumerate(found)))
    batch = bench.plan(reason="precision")  # 0, 2 and 3
    with monkeypatch.context() as wrong:
        read = [arrow([Raw(0, n, order(f"{n}", n)) for n in (*given, 3)])]
        wrong.setattr(step, "read_records", lambda *_: (each for each in read))
        with pytest.raises(IncompleteStaging):
            run_batch(bench.pipeline, PlannedBatch(batch, False, 0, ""), ME, quiet)
    assert (bench.table(), bench.quarantine()) == ({}, dict.fromkeys([(0, n) for n in range(4)]))
