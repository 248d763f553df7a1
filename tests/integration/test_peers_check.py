"""The check of the comparison with other programs finds a missing, an extra and a changed row, and nothing else."""

from __future__ import annotations

import pytest
from benchmarks.peers.bench_servers import write_answer
from benchmarks.peers.workload import Target, Width, Workload, difference, rows_after, rows_before, state

from offset_ledger.outside.connections import Connection
from offset_ledger.postgres.ledger.database import connect, transaction


@pytest.mark.parametrize("width", Width)
def test_the_check_compares_whole_rows(postgres: Connection, width: Width) -> None:
    with connect(postgres) as session, transaction(session) as cursor:
        cursor.execute("CREATE SCHEMA peer")
        write_answer(cursor, Workload(200, width, Target.EMPTY))
        for target in Target:
            workload, table = Workload(200, width, target), f"peer.{target}"
            before = rows_before(workload) or f"{rows_after(workload)} WHERE false"
            cursor.execute(f"CREATE TABLE {table} AS {before}")
            for i in range(200 if target is not Target.STALE else 0):  # as a peer that is right
                event = state(i, width is Width.WIDE)
                cursor.execute(
                    f"DELETE FROM {table} WHERE event_id = %(event_id)s AND publish_at < %(publish_at)s", event
                )
                values = ", ".join(f"%({name})s" for name in event)
                absent = f"NOT EXISTS (SELECT FROM {table} WHERE event_id = %(event_id)s)"
                cursor.execute(f"INSERT INTO {table} SELECT {_typed(values)} WHERE {absent}", event)
            cursor.execute(difference(workload, table))
            assert list(cursor.one()) == [0, 0, 0]
            cursor.execute(f"DELETE FROM {table} WHERE event_id = 'order-000000000000'")
            cursor.execute(f"UPDATE {table} SET paid = NOT paid WHERE event_id = 'order-000000000001'")
            cursor.execute(f"UPDATE {table} SET event_id = 'another' WHERE event_id = 'order-000000000002'")
            cursor.execute(difference(workload, table))
            assert list(cursor.one()) == [2, 1, 1]


def _typed(values: str) -> str:
    return values.replace("%(publish_at)s", "%(publish_at)s::timestamptz")
