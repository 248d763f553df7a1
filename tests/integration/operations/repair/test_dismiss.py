"""Dismiss: records that will never fit are set apart by a person, with who and why, and no redrive takes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg2 import errors as pg

from offset_ledger.errors import ConfigurationError, StateConflict
from offset_ledger.model.states import State
from offset_ledger.operations.repair.verify import verify
from offset_ledger.postgres.ledger import dead_letters
from offset_ledger.postgres.ledger.database import connect, rows, transaction
from offset_ledger.postgres.ledger.decisions import decide
from offset_ledger.postgres.ledger.redrive import RedriveChoice, Selection
from offset_ledger.steps.run.redrive import Dismissed, dismiss, plan_redrive
from offset_ledger_kit.cli.main import main
from tests.fixtures.raw import Raw
from tests.fixtures.servers import Servers
from tests.fixtures.staged import ME
from tests.integration.operations.repair.repair_bench import Bench, order


@pytest.fixture
def bench(servers: Servers, tmp_path: Path) -> Iterator[Bench]:
    """Three records in quarantine: two broken ones, and one whose amount has too many decimals."""
    with connect(servers.postgres) as session:
        made = Bench(tmp_path, session)
        made.commit(Raw(0, 0, order("a", 1)), Raw(0, 1, b"{"), Raw(0, 2, order("b", 1, amount=1.005)), Raw(1, 0, b"["))
        yield made


def by_decision(bench: Bench) -> dict[tuple[int, int], int | None]:
    found = rows(bench.session, 'SELECT partition, "offset", dismissed_by FROM offset_ledger.quarantine')
    return {(row[0], row[1]): row[2] for row in found}


def test_a_dismissed_record_is_taken_by_no_redrive_until_that_is_undone(bench: Bench) -> None:
    assert dismiss(bench.pipeline, Selection(0, (1,)), ME, "cut off by the producer") == Dismissed(
        1, ((0, 1),), f"1 record of {bench.pipeline.name} dismissed"
    )
    assert by_decision(bench) == {(0, 1): 1, (0, 2): None, (1, 0): None}
    bench.amount = "numeric(12,3)"
    bench.execute("ALTER TABLE public.orders ALTER amount TYPE numeric(12,3)")
    done = bench.redrive()
    assert bench.quarantine() == {(0, 1): None, (0, 2): done.batch.batch_id, (1, 0): None}
    assert rows(bench.session, "SELECT count(*) FROM offset_ledger.redrive_record")[0][0] == 2
    assert verify(bench.pipeline)[0] == []

    assert dismiss(bench.pipeline, Selection(0, (1,)), ME, "may be read after all", undo=True).dismissal_id == 2
    assert by_decision(bench) == {(0, 1): None, (0, 2): None, (1, 0): None}
    plan_redrive(bench.pipeline, RedriveChoice(), ME)
    held = rows(bench.session, "SELECT quarantine_id FROM offset_ledger.redrive_record WHERE outcome IS NULL")
    assert len(held) == 2
    kept = rows(bench.session, "SELECT undone, who, why FROM offset_ledger.dismissal ORDER BY dismissal_id")
    assert [tuple(row) for row in kept] == [
        (False, "test", "cut off by the producer"),
        (True, "test", "may be read after all"),
    ]
    assert verify(bench.pipeline)[0] == []


def test_the_verbs_dismiss_by_reason_and_show_it_apart(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(bench.pipeline.path)
    assert main(["quarantine", "dismiss", path, "--reason", "syntax", "--why", "test data", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"dismissal_id": 1, "records": [[0, 1]], "undone": False}
    assert main(["quarantine", "list", path]) == 0
    shown = capsys.readouterr().out
    assert "2 unresolved records, and 1 dismissed" in shown
    assert "0:1" not in shown.split()
    assert main(["quarantine", "list", path, "--dismissed", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["records"], [each["examples"] for each in answer["reasons"]]) == (1, [["0:1"]])
    assert main(["quarantine", "dismiss", path, "--reason", "syntax", "--why", "again", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["records"] == []
    assert main(["quarantine", "dismiss", path, "--partition", "0", "--offset", "1", "--undo", "--why", "no"]) == 0
    assert "1 record of orders unresolved again" in capsys.readouterr().out


def test_what_a_redrive_holds_is_not_dismissed(bench: Bench) -> None:
    batch = bench.plan(reason="syntax")
    with pytest.raises(StateConflict, match=f"1 in open batch {batch.batch_id}; nothing was changed"):
        dismiss(bench.pipeline, Selection(0, (1, 2)), ME, "never")
    assert set(by_decision(bench).values()) == {None}
    decide(bench.session, batch.batch_id, State.ABANDONED, ME, "dismiss it")
    assert dismiss(bench.pipeline, Selection(0, (1, 2)), ME, "never").records == ((0, 1), (0, 2))
    assert verify(bench.pipeline)[0] == []
    with pytest.raises(pg.CheckViolation, match="dismissed_is_not_resolved"):
        bench.execute("UPDATE offset_ledger.quarantine SET resolved_by = 1 WHERE dismissed_by IS NOT NULL")


@pytest.mark.parametrize(
    ("selection", "error", "message"),
    [
        (Selection(0, (1, 7, 9)), StateConflict, "no unresolved record in quarantine at offset 7, 9; nothing was"),
        (Selection(0, (0,)), StateConflict, "no unresolved record in quarantine at offset 0"),
        (Selection(), ConfigurationError, "which records"),
        (Selection(0), ConfigurationError, "name a record together"),
        (Selection(None, (1,)), ConfigurationError, "name a record together"),
    ],
)
def test_nothing_is_dismissed_by_mistake(
    bench: Bench, selection: Selection, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        dismiss(bench.pipeline, selection, ME, "never")
    assert set(by_decision(bench).values()) == {None}


def test_a_waiting_dead_letter_is_not_sent_while_its_record_is_dismissed(bench: Bench) -> None:
    with transaction(bench.session) as cursor:
        dead_letters.enqueue(cursor, 1, "orders.dead")

    def waiting() -> list[tuple[int, int]]:
        taken = dead_letters.take(bench.session, "orders", "orders.dead", 10)
        return [(row["partition"], row["offset"]) for row in taken]

    dismiss(bench.pipeline, Selection(0, (1,)), ME, "too large for the topic")
    assert waiting() == [(0, 2), (1, 0)]
    dismiss(bench.pipeline, Selection(0, (1,)), ME, "it is larger now", undo=True)
    assert waiting() == [(0, 1), (0, 2), (1, 0)]


@pytest.mark.parametrize(
    ("tampering", "line"),
    [
        ("dismissed_by = NULL", "partition 0 offset 1 is dismissed by decision none, the last decision about it is 1"),
        ("dismissed_by = 2", "partition 0 offset 1 is dismissed by decision 2, the last decision about it is 1"),
    ],
)
def test_verify_compares_what_is_dismissed_with_the_decisions(bench: Bench, tampering: str, line: str) -> None:
    dismiss(bench.pipeline, Selection(0, (1,)), ME, "never")
    dismiss(bench.pipeline, Selection(1, (0,)), ME, "never")
    assert verify(bench.pipeline)[0] == []
    bench.execute(f'UPDATE offset_ledger.quarantine SET {tampering} WHERE (partition, "offset") = (0, 1)')
    assert verify(bench.pipeline)[0] == [f"invariant 10 redriven records are accounted for: {line}"]
