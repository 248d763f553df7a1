"""What verify sees of a table that somebody else has changed, and what it lets pass."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from offset_ledger.model.states import BatchKind
from offset_ledger.operations.repair.verify import verify
from offset_ledger.postgres.ledger.database import connect, rows
from offset_ledger_kit.cli.main import main
from tests.fixtures.raw import Raw
from tests.fixtures.servers import Servers
from tests.integration.operations.repair.repair_bench import Bench, order


@pytest.fixture
def bench(servers: Servers, tmp_path: Path) -> Iterator[Bench]:
    with connect(servers.postgres) as session:
        yield Bench(tmp_path, session)


def filled(bench: Bench) -> None:
    """Three batches: rows, a newer state, a refused record, and one of the ranges read again."""
    first = [Raw(0, 0, order("a", 1)), Raw(0, 1, order("b", 1)), Raw(0, 2, b"{"), Raw(1, 0, order("c", 1))]
    bench.commit(*first)
    bench.commit(Raw(0, 3, order("a", 2, "paid")), Raw(1, 1, order("d", 2)))
    bench.commit(*first[:2], kind=BatchKind.REPLAY)


REMOVED, PUT_IN, SHEET = "rows were removed", "rows were put in", "its balance sheet has"


@pytest.mark.parametrize(
    ("tampering", "expected"),
    [
        ("TRUNCATE public.orders", [f"has 0 event ids.* make it 4: {REMOVED}"]),
        ("DELETE FROM public.orders WHERE event_id = 'b'", [f"has 3 event ids.* make it 4: {REMOVED}"]),
        (
            "INSERT INTO public.orders SELECT 'z', publish_at, state, amount, 0, 1, _timestamp, _key, _headers,"
            " _deleted, 1 FROM public.orders WHERE event_id = 'b'",
            [f"has 5 event ids.* make it 4: {PUT_IN}"],
        ),
        (
            "UPDATE public.orders SET _deleted = true WHERE event_id = 'b'",
            [f"batch 1 partition 0: 0 rows and 1 delete markers of it stand in the table, {SHEET} 2 and 0"],
        ),
    ],
)
def test_a_table_that_was_changed_by_hand_is_reported(bench: Bench, tampering: str, expected: list[str]) -> None:
    filled(bench)
    assert verify(bench.pipeline)[0] == []
    bench.execute(tampering)
    found = [line for line in verify(bench.pipeline)[0] if line.startswith(("invariant 11 ", "invariant 12 "))]
    assert len(found) == len(expected)
    assert all(re.search(pattern, line) for pattern, line in zip(expected, found, strict=True)), found


def test_redrives_and_replays_keep_the_count_right(bench: Bench) -> None:
    bench.state = "varchar(3)"
    bench.commit(Raw(0, 0, order("a", 1)), Raw(0, 1, order("b", 1, "paid")), Raw(0, 2, order("a", 3)))
    bench.state = "text"
    bench.execute("ALTER TABLE public.orders ALTER state TYPE text")
    bench.redrive()
    bench.commit(Raw(0, 1, order("b", 1, "paid")), Raw(0, 2, order("a", 3)), kind=BatchKind.REPLAY)
    added = rows(bench.session, "SELECT batch_id, added FROM offset_ledger.batch_range ORDER BY 1")
    assert [tuple(row) for row in added] == [(1, 1), (2, 1), (3, 0)]
    assert verify(bench.pipeline)[0] == []


def test_a_table_that_was_emptied_on_purpose_is_accepted_by_a_person(bench: Bench) -> None:
    filled(bench)
    bench.execute("TRUNCATE public.orders")
    bench.commit(Raw(0, 0, order("a", 1)), Raw(0, 1, order("b", 1)), kind=BatchKind.REPLAY)
    (line,) = verify(bench.pipeline)[0]
    assert "the table has 2 event ids, rows and delete markers together, but its batches make it 6" in line
    assert main(["accept", "table", str(bench.pipeline.path), "--why", "started over from offset 0"]) == 0
    assert verify(bench.pipeline)[0] == []
    (counted,) = rows(bench.session, "SELECT event_ids, added, why FROM offset_ledger.table_count")
    assert tuple(counted) == (2, 6, "started over from offset 0")
    bench.commit(Raw(1, 0, order("c", 1)), kind=BatchKind.REPLAY)
    assert verify(bench.pipeline)[0] == []
