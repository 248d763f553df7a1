"""A run that fails or is killed around a change of the schema, or is given up: the next makes it good."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from offset_ledger.base.failpoints import VARIABLE
from offset_ledger.errors import TransientError
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.states import State
from offset_ledger.postgres.ledger.database import open_ledger, rows, transaction
from offset_ledger.postgres.ledger.decisions import decide
from offset_ledger.postgres.ledger.followed_columns import with_columns
from tests.fixtures.following import Bench, bench, ranges
from tests.fixtures.formats import AVRO
from tests.fixtures.registry_bench import ME

__all__ = ["bench"]  # the fixture

PLACES = ["slice_committed", "after_boundary", "after_stage", "before_merge", "after_merge", "after_commit"]


@pytest.mark.parametrize("place", PLACES)
def test_a_run_that_fails_anywhere_is_made_good_by_the_next(
    bench: Bench, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = bench.register(AVRO.schema(1)), bench.register(AVRO.schema(2))
    bench.put(0, *bench.orders(1, first, "abc"), *bench.orders(2, second, "de"))
    bench.put(1, *bench.orders(1, first, "fg"), *bench.orders(2, second, "h"))
    for failing in (True, place != "after_boundary"):  # the second batch knows what it begins with
        if failing:
            monkeypatch.setenv(VARIABLE, f"{place}=fail")
            with pytest.raises(TransientError, match=f"failpoint {place}"):
                bench.ingest(until_drained=False)
            monkeypatch.delenv(VARIABLE)
            committed = [row[0] for row in rows(bench.session, "SELECT state FROM offset_ledger.batch")]
            assert ("note" in bench.types()) is (committed == ["committed", "committed"])
        if place != "after_commit":
            bench.ingest(until_drained=False)
    ends = rows(bench.session, "SELECT batch_id, state, partition, until_offset FROM offset_ledger.batch"
                " JOIN offset_ledger.batch_range USING (batch_id) ORDER BY batch_id, partition")  # fmt: skip
    assert [tuple(row[1:]) for row in ends] == [
        *(("committed", 0, 3), ("committed", 1, 2)),
        *(("committed", 0, 5), ("committed", 1, 3)),
    ]
    assert bench.changes() == [(ends[-1][0], "ADD COLUMN note text")]
    assert bench.ingest() == []
    assert set(bench.rows("_partition, _offset, event_id, amount, note")) == {
        *((0, n, name, ord(name), "x" if n > 2 else None) for n, name in enumerate("abcde")),
        *((1, n, name, ord(name), "x" if n > 1 else None) for n, name in enumerate("fgh")),
    }
    bench.check()


def test_a_process_that_is_killed_after_the_cut_leaves_a_batch_that_ends_there(bench: Bench) -> None:
    first, second = bench.register(AVRO.schema(1)), bench.register(AVRO.schema(2))
    bench.put(0, *bench.orders(1, first, "abc"), *bench.orders(2, second, "de"))
    command = [sys.executable, "-m", "offset_ledger_kit.cli", "ingest", str(bench.path)]
    killed = subprocess.run(command, env={**os.environ, VARIABLE: "after_boundary=kill"}, check=False)
    assert killed.returncode == -signal.SIGKILL
    (batch,) = rows(bench.session, "SELECT batch_id, state, epoch FROM offset_ledger.batch")
    planned = rows(bench.session, "SELECT from_offset, until_offset FROM offset_ledger.batch_range")
    assert (batch["state"], batch["epoch"], [list(row) for row in planned]) == ("staging", 1, [[0, 3]])
    assert set(bench.rows("event_id")) == set()
    done = bench.ingest()
    assert [ranges(each) for each in done] == [[OffsetRange(0, 0, 3)], [OffsetRange(0, 3, 5)]]
    assert set(bench.rows("event_id, note")) == {*((name, None) for name in "abc"), *((name, "x") for name in "de")}
    bench.check()


def test_an_abandoned_batch_leaves_no_column_behind(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    second = bench.register(AVRO.schema(2))
    bench.put(0, *bench.orders(2, second, "ab"))
    monkeypatch.setenv(VARIABLE, "before_merge=fail")
    with pytest.raises(TransientError):
        bench.ingest()
    monkeypatch.delenv(VARIABLE)
    (open_batch,) = rows(bench.session, "SELECT batch_id FROM offset_ledger.batch")
    with open_ledger(bench.pipeline) as session:
        decide(session, open_batch[0], State.ABANDONED, ME, "a test")
    assert "note" not in bench.types()
    with transaction(bench.session) as cursor:
        assert with_columns(cursor, bench.pipeline) == bench.pipeline
    (done,) = bench.ingest()
    assert bench.changes() == [(done.batch.batch_id, "ADD COLUMN note text")]
    assert set(bench.rows("event_id, note")) == {("a", "x"), ("b", "x")}
    bench.check()
