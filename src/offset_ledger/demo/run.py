"""The demo: the flights of 2013 through the real stack and Airflow, and the proof that each arrived exactly once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from offset_ledger.demo.dag_runs import DagRun, DagRuns
from offset_ledger.demo.proof import Claim, fingerprint, prove
from offset_ledger.errors import StackError
from offset_ledger.ledger.database import connect, named_sql, rows, transaction
from offset_ledger.ledger.migrate import migrate
from offset_ledger.local import stack as local
from offset_ledger.local.stack import Stack
from offset_ledger.reliability.publishing.disturbances import expected
from offset_ledger.reliability.publishing.feed import publish_flights
from offset_ledger.reliability.publishing.progress import progress
from offset_ledger.stage.cds_archive import make_archive

TOPIC = "flights.events"
DAG = "ingest_flights"
SEED = 2013

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Proof:
    """What the demo showed: the balance sheet by partition, the newest batches, and each claim with what was seen."""

    stack: Stack
    sheet: list[Any]
    batches: list[Any]
    claims: list[Claim]
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether every claim does."""
        return all(claim.holds for claim in self.claims)

    @property
    def pages(self) -> list[Path]:
        """The quality report of each batch."""
        return sorted((self.stack.home / "reports" / "flights").glob("[0-9]*.html"))


def run(flights: int | None, say: Say) -> Proof:
    """Start the stack, publish, drain the topic through Airflow, show the ledger and prove the result."""
    began = time.monotonic()
    stack = local.up(brokers=3, airflow=True, say=say, meanwhile=make_archive)
    with connect(stack.postgres.connection()) as session:
        migrate(session)
    publish(stack, flights, say)
    runs = DagRuns(stack.airflow, DAG, say)
    runs.unpause()
    drain(runs, say)
    with connect(stack.postgres.connection()) as session:
        say("checking the table against the CSV")
        with transaction(session) as cursor:
            claims = prove(cursor, SEED, flights)
            before = fingerprint(cursor)
        say("running the DAG once more")
        again = runs.trigger()
        with transaction(session) as cursor:
            claims.append(Claim("a second run planned nothing", True, again.skipped))
            claims.append(Claim("a second run changed no row", before, fingerprint(cursor)))
        ledger = rows(session, named_sql("batches/recent"), {"pipeline": "flights", "limit": 20})
        return Proof(stack, rows(session, named_sql("demo/balance")), ledger, claims, time.monotonic() - began)


def publish(stack: Stack, flights: int | None, say: Say) -> None:
    """Publish the flights once; a stack that has them already keeps them.

    Raises:
        StackError: the topic holds another or an unfinished publication.
    """
    marker = stack.home / "demo.json"
    wanted = {"seed": SEED, "flights": flights}
    state = json.loads(marker.read_text()) if marker.exists() else None
    if state == {**wanted, "finished": True}:
        say(f"{TOPIC} has its flights already")
        return
    if state is not None:
        raise StackError(f"{TOPIC} holds another or an unfinished publication ({state}); start afresh with: make clean")
    marker.write_text(json.dumps({**wanted, "finished": False}))
    total = expected(SEED, flights).records
    say(f"publishing {total:,} events to {TOPIC}, acks=all and idempotent, replication factor {stack.brokers}")
    with progress(total, "published") as advance:
        summary = publish_flights(
            dict(stack.connections()[0].extra),
            TOPIC,
            SEED,
            flights,
            replication_factor=stack.brokers,
            on_progress=advance,
        )
    say(f"published {summary.records:,} events, {summary.per_second:,.0f} a second")
    marker.write_text(json.dumps({**wanted, "finished": True}))


def drain(runs: DagRuns, say: Say) -> None:
    """Run the DAG until it finds nothing new."""
    while True:
        say(f"running the DAG {DAG}")
        finished: DagRun = runs.trigger()
        if finished.skipped:
            return
        say(f"  {finished.run_id}: {', '.join(f'{task} {s:.0f} s' for task, s in finished.seconds.items())}")
