"""The bookkeeping of a batch, and what people look at, in a ledger of 1,000,000 batches.

    python -m benchmarks.ledger [--batches 1000000] [--partitions 1000]

Half of the batches are of one pipeline with two partitions, the rest of fifty pipelines with one; besides them a
pipeline has 1,000 partitions and 300 batches. Postgres only, on a server of its own in a temporary folder: no Kafka, no
Spark, one record for each partition. Each step runs some times, and the fastest and the median count; plans are run
again with EXPLAIN, which says how many rows of the ledger's big tables they read, and which of these from end to end.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import psutil
from tabulate import tabulate
from tests.fixtures.ages import same_age
from tests.fixtures.grown import STAGING, Statement, grow, grown_pipeline, reads_of
from tests.fixtures.grown_steps import Recorded, looks, run_batch
from tests.fixtures.servers import execute
from tests.fixtures.staged import ME

from offset_ledger.operations.repair.prune import prune_beyond
from offset_ledger.operations.repair.verify import invariants
from offset_ledger.outside.connections import Connection, environment_name
from offset_ledger.postgres.ledger.database import Cursor, Session, connect, migrate, transaction
from offset_ledger_kit.sandbox.layout import free_ports
from offset_ledger_kit.sandbox.postgres import Postgres
from offset_ledger_kit.sandbox.process import Launch

ROUNDS = 7
PLAN_TO_COMMIT = ("plan", "claim", "slices", "seal", "validate", "commit")


@contextmanager
def server(home: Path) -> Iterator[tuple[Connection, psutil.Process]]:
    """A Postgres of its own with a migrated database, and its process."""
    postgres = Postgres(home, free_ports(1)[0])
    postgres.up(Launch(print))
    try:
        connection = postgres.connection()
        os.environ[environment_name(connection.conn_id)] = connection.to_json()
        os.environ["OFFSET_LEDGER_REPORTS"] = str(home / "reports")
        with connect(connection) as session:
            migrate(session)
        yield connection, psutil.Process(postgres.daemon.pid())
    finally:
        postgres.stop()


def fill(session: Session, connection: Connection, batches: int, partitions: int) -> None:
    """The ledger of the head of this file."""
    pipelines = [("often", batches // 2, 2, 1.0), ("wide", 300, partitions, 15.0)]
    pipelines += [(f"p{n:02}", batches // 100, 1, 15.0) for n in range(50)]
    began = time.perf_counter()
    for name, count, width, minutes in pipelines:
        grow(session, grown_pipeline(name), count, width, minutes)
    execute(connection, "VACUUM ANALYZE")
    print(f"filled in {time.perf_counter() - began:.0f} s: {_sizes(session)}\n", flush=True)


def _sizes(session: Session) -> str:
    with transaction(session) as cursor:
        cursor.execute(
            "SELECT relname, reltuples::bigint, pg_total_relation_size(oid) >> 20 FROM pg_class WHERE relkind = 'r'"
            " AND relnamespace = 'offset_ledger'::regnamespace AND reltuples > 100000 ORDER BY 2 DESC"
        )
        return ", ".join(f"{name} {rows:,} rows {size:,} MB" for name, rows, size in cursor.fetchall())


def _of_ledger(statements: Sequence[Statement]) -> float:
    """Milliseconds of the statements about the ledger, those about staged data left out."""
    return 1000 * sum(each.seconds for each in statements if "offset_ledger" in each.text and STAGING not in each.text)


def measure(session: Session, name: str) -> list[list[object]]:
    """A line for each step and each look: milliseconds, and what is read."""
    pipeline = grown_pipeline(name)
    run_batch(session, pipeline)
    rounds: list[Recorded] = []
    for _ in range(ROUNDS):
        batch_id, steps = run_batch(session, pipeline)
        rounds.append({**steps, **looks(session, pipeline, batch_id)})
    for each in rounds:
        each["plan to commit"] = [one for step in PLAN_TO_COMMIT for one in each[step]]
    return [_line(session, name, step, [each[step] for each in rounds]) for step in rounds[0]]


def cpu_of_batches(session: Session, postgres: psutil.Process, name: str) -> list[object]:
    """Milliseconds of processor time of a batch from plan to commit: the server's, and this process's."""
    pipeline = grown_pipeline(name)
    server, here = _cpu(postgres), time.process_time()
    for _ in range(ROUNDS):
        run_batch(session, pipeline)
    mine, theirs = time.process_time() - here, _cpu(postgres) - server
    return [name, 1000 * theirs / ROUNDS, 1000 * mine / ROUNDS]


def _cpu(postgres: psutil.Process) -> float:
    """Seconds that the server and its sessions took, those that have ended included."""
    own = postgres.cpu_times()
    sessions = [child.cpu_times() for child in postgres.children()]
    used = [own.children_user, own.children_system, *(times.user + times.system for times in (own, *sessions))]
    return float(sum(used))


def _line(session: Session, name: str, step: str, rounds: list[list[Statement]]) -> list[object]:
    times = [_of_ledger(each) for each in rounds]
    reads = [read for each in rounds[-1] if each.is_planned for read in reads_of(session, each)]
    most = max((read.rows for read in reads), default=0)
    scans = sorted({read.table for read in reads if "Seq Scan" in read.scan and read.beyond(0)})
    return [name, step, min(times), statistics.median(times), len(rounds[-1]), most, ", ".join(scans) or "none"]


def verify_times(session: Session, name: str) -> list[list[object]]:
    """Seconds of each invariant."""
    pipeline = grown_pipeline(name)
    lines: list[list[object]] = []
    for invariant, query in invariants(pipeline).items():
        with transaction(session) as cursor:
            began = time.perf_counter()
            cursor.execute(query, {"pipeline": name, "file": pipeline.file})
            lines.append([name, invariant, time.perf_counter() - began, len(cursor.fetchall())])
    return lines


def replays(session: Session, name: str, count: int) -> None:
    """So many committed replays of the same offsets after the newest head batch, and two more heads after them."""
    with transaction(session) as cursor:
        cursor.execute(
            """
            ALTER TABLE offset_ledger.batch DISABLE TRIGGER USER;
            CREATE TEMPORARY TABLE one ON COMMIT DROP AS SELECT * FROM offset_ledger.batch
                WHERE pipeline = %(name)s AND kind = 'replay' AND state = 'committed' ORDER BY batch_id DESC LIMIT 1;
            CREATE TEMPORARY TABLE its ON COMMIT DROP AS
                SELECT r.* FROM offset_ledger.batch_range r JOIN one USING (batch_id);
            CREATE TEMPORARY TABLE made (batch_id bigint) ON COMMIT DROP;
            INSERT INTO made SELECT nextval(pg_get_serial_sequence('offset_ledger.batch', 'batch_id'))
                FROM generate_series(1, %(count)s);
            INSERT INTO offset_ledger.batch OVERRIDING SYSTEM VALUE
                SELECT (jsonb_populate_record(o, jsonb_build_object('batch_id', m.batch_id))).* FROM made m, one o;
            INSERT INTO offset_ledger.batch_range
                SELECT (jsonb_populate_record(r, jsonb_build_object('batch_id', m.batch_id))).* FROM made m, its r;
            ALTER TABLE offset_ledger.batch ENABLE TRIGGER USER;
            ANALYZE offset_ledger.batch, offset_ledger.batch_range""",
            {"name": name, "count": count},
        )
    for _ in range(2):
        run_batch(session, grown_pipeline(name))


def prune_times(name: str, keep: int) -> list[object]:
    """A line about the transactions of a prune of all but the newest head batches."""
    taken: list[tuple[float, int, int]] = []

    @contextmanager
    def measured(own: Session) -> Iterator[Cursor]:
        with transaction(own) as cursor:
            began, wal = time.perf_counter(), _number(cursor, "pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
            yield cursor
            locks = _number(cursor, "(SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid())")
            written = _number(cursor, "pg_current_wal_insert_lsn() - '0/0'::pg_lsn") - wal
        taken.append((time.perf_counter() - began, written, locks))

    with patch("offset_ledger.operations.repair.prune.transaction", measured):
        pruned = prune_beyond(grown_pipeline(name), same_age(timedelta(0)), keep, ME)
    seconds, wal, locks = zip(*taken, strict=True)
    a_batch = max(pruned.batches, 1)
    times = [sum(seconds), 1000 * sum(seconds) / a_batch, max(seconds)]
    logged = [sum(wal) / a_batch / 1000, max(wal) / 1e6]
    return [name, pruned.batches, pruned.records, len(taken), *times, *logged, max(locks)]


PRUNED = ["pruned", "batches", "records", "transactions", "seconds", "ms a batch", "longest s"]
PRUNED += ["WAL kB a batch", "most WAL MB", "most locks"]


def _number(cursor: Cursor, expression: str) -> int:
    cursor.execute(f"SELECT {expression}")
    return int(cursor.one()[0])


def main() -> None:
    """Print the figures of one run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=1_000)
    arguments = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="offset-ledger-bench-"))
    names = ("often", "p00", "wide")
    try:
        with server(home) as (connection, postgres), connect(connection) as session:
            fill(session, connection, arguments.batches, arguments.partitions)
            heads = ["pipeline", "step", "fastest ms", "median ms", "statements", "most rows read", "read whole"]
            print(
                tabulate([line for name in names for line in measure(session, name)], heads, floatfmt=".1f"), flush=True
            )
            cpu = [cpu_of_batches(session, postgres, name) for name in names]
            print(tabulate(cpu, ["plan to commit", "CPU ms Postgres", "CPU ms Python"], floatfmt=".0f"))
            verified = [line for name in names for line in verify_times(session, name)]
            print(tabulate(verified, ["pipeline", "invariant", "seconds", "violations"], floatfmt=".2f"))
            replays(session, "p00", arguments.batches // 20)
            pruned = [prune_times(*each) for each in (("often", 100), ("wide", 100), ("p00", 1))]
            print(tabulate(pruned, PRUNED, floatfmt=",.2f"), _sizes(session), sep="\n", flush=True)
            print(tabulate(verify_times(session, "often"), ["pruned", "invariant", "seconds", "violations"]))
            print(f"memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB")
            print("load:", " ".join(f"{each:.1f}" for each in os.getloadavg()))
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
