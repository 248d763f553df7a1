"""A long history costs neither a batch nor a look at the ledger anything: what they read does not grow with it."""

from __future__ import annotations

from datetime import timedelta

from offset_ledger.operations.repair.prune import prune_beyond, prune_history
from offset_ledger.operations.repair.verify import verify
from offset_ledger.postgres.ledger.database import Session, connect
from tests.fixtures.ages import same_age
from tests.fixtures.grown import BIG, Statement, grow, grown_pipeline, ranges_read, reads_of, recorded
from tests.fixtures.grown_steps import Recorded, looks, run_batch
from tests.fixtures.servers import Servers, execute
from tests.fixtures.staged import ME

FEW = 1_000  # rows of one table that one statement may read; the ledger has 8,000 batches and 16,000 ranges


def too_many(session: Session, done: Recorded) -> dict[str, list[str]]:
    """By step: what its statements read more than a few rows of."""
    reads = {
        name: [read for each in statements if each.is_planned for read in reads_of(session, each)]
        for name, statements in done.items()
    }
    found = {name: [str(read) for read in some if read.beyond(FEW)] for name, some in reads.items()}
    return {name: lines for name, lines in found.items() if lines}


def test_no_step_and_no_look_reads_the_history(servers: Servers) -> None:
    old, busy = grown_pipeline("old"), grown_pipeline("busy")
    with connect(servers.postgres) as session:
        grow(session, old, 4_000, 2, minutes=60)
        grow(session, busy, 4_000, 2, minutes=60)
        execute(servers.postgres, "ANALYZE")
        for pipeline in (old, busy):  # one whose batches are the first of their table, one whose are the last
            run_batch(session, pipeline)  # the first one creates what is created once
            batch_id, done = run_batch(session, pipeline)
            assert too_many(session, done) == {}
            assert too_many(session, looks(session, pipeline, batch_id)) == {}
            assert verify(pipeline)[0] == []
        pruned = prune_history(old, same_age(timedelta(days=60)), ME)
        assert pruned.batches > 1_000
        assert verify(old)[0] == []


def test_no_step_reads_the_history_also_without_statistics(servers: Servers) -> None:
    """As after a restore."""
    pipeline = grown_pipeline("old")
    with connect(servers.postgres) as session:
        grow(session, pipeline, 4_000, 2, minutes=60)
        run_batch(session, pipeline)
        _, done = run_batch(session, pipeline)
        assert too_many(session, done) == {}


def test_constraints_look_ranges_up_one_by_one_also_without_statistics(servers: Servers) -> None:
    """As after a restore. Where the planner expects one range in a partition, its whole chain looks as good to it."""
    pipeline = grown_pipeline("old")
    with connect(servers.postgres) as session:
        grow(session, pipeline, 2_000, 2, minutes=60)
        run_batch(session, pipeline)
        before = ranges_read(session)
        run_batch(session, pipeline)
        assert ranges_read(session) - before < 100


def test_a_transaction_of_prune_looks_only_at_what_it_may_remove(servers: Servers) -> None:
    pipeline = grown_pipeline("old")
    with connect(servers.postgres) as session:
        grow(session, pipeline, 6_000, 1)
        execute(servers.postgres, "ANALYZE")
        with recorded() as statements:
            counted = prune_beyond(pipeline, same_age(timedelta(0)), 100, ME, dry_run=True, size=100)
        assert counted.batches > 2_000
        reads = [read for each in statements if each.is_planned for read in reads_of(session, each)]
        assert [read for read in reads if read.beyond(300)] == []


def test_the_walk_over_plans_finds_a_table_that_is_read_from_end_to_end(servers: Servers) -> None:
    with connect(servers.postgres) as session:
        grow(session, grown_pipeline("old"), 600, 2)
        execute(servers.postgres, "ANALYZE")
        for table in sorted(BIG):
            read, *_ = reads_of(session, Statement(f"SELECT count(*) FROM offset_ledger.{table} WHERE xmin = '3'", 0))
            assert (read.table, read.beyond(50)) == (table, True)
            read, *_ = reads_of(session, Statement(f"DELETE FROM offset_ledger.{table} WHERE xmin = '3'", 0))
            assert (read.table, read.beyond(50)) == (table, True)
