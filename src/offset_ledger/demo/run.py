"""The demo: the flights of 2013 through the real stack and Airflow, and the proof that each arrived exactly once."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from offset_ledger.demo.dag_runs import DagRuns
from offset_ledger.demo.proof import Claim, DemoProof, Stopwatch, engines, fingerprint, prove
from offset_ledger.errors import StackError
from offset_ledger.kafka.client import connect_kafka
from offset_ledger.ledger.database import connect, migrate, named_sql, rows, transaction
from offset_ledger.ledger.pipelines import read_cursors
from offset_ledger.model.request import NOTHING_NEW
from offset_ledger.progress import progress
from offset_ledger.publishing.disturbances import Expected, expected, publish_flights
from offset_ledger.sandbox import stack as local
from offset_ledger.sandbox.stack import Stack

TOPIC = "flights.events"
PIPELINE = "flights"
DAG = f"ingest_{PIPELINE}"
SEED = 2013

Say = Callable[[str], None]


def run(flights: int | None, say: Say) -> DemoProof:
    """Start the stack, publish, drain the topic through Airflow, show the ledger and prove the result."""
    watch = Stopwatch()
    with watch.part("start the servers"), ThreadPoolExecutor(1) as beside:
        answering = beside.submit(expected, SEED, flights)
        stack = local.up(brokers=3, airflow=True, say=say)
        with connect(stack.postgres.connection()) as session:
            migrate(session)
        answer = answering.result()
    with watch.part("publish"):
        publish(stack, flights, answer, say)
    runs = DagRuns(stack.airflow, DAG, say)
    with watch.part("run the DAG"):
        runs.unpause()
        drain(stack, runs, watch, say)
    with connect(stack.postgres.connection()) as session:
        say("checking the table against the CSV")
        with watch.part("check"), transaction(session) as cursor:
            claims = [*prove(cursor, answer, flights), engines(cursor, [PIPELINE])]
            before = fingerprint(cursor)
        say("running the DAG once more")
        with watch.part("run it once more"):
            again = runs.trigger()
        with transaction(session) as cursor:
            claims.append(Claim("a second run planned nothing", True, again.skipped))
            claims.append(Claim("a second run changed no row", before, fingerprint(cursor)))
        ledger = rows(session, named_sql("batches/recent"), {"pipeline": PIPELINE, "limit": 20})
        sheet = rows(session, named_sql("demo/balance"))
    pages = sorted((stack.home / "reports" / PIPELINE).glob("[0-9]*.html"))
    return DemoProof(sheet, ledger, claims, watch.parts, watch.tasks, stack, pages)


def publish(stack: Stack, flights: int | None, answer: Expected, say: Say) -> None:
    """Publish the flights once; a stack that has them already keeps them.

    Raises:
        StackError: the topic has another or an unfinished publication.
    """
    marker = stack.home / "demo.json"
    wanted = {"seed": SEED, "flights": flights}
    state = json.loads(marker.read_text()) if marker.exists() else None
    if state == {**wanted, "finished": True}:
        say(f"{TOPIC} has its flights already")
        return
    if state is not None:
        raise StackError(f"{TOPIC} has another or an unfinished publication ({state}); to start again: make clean")
    marker.write_text(json.dumps({**wanted, "finished": False}))
    say(f"publishing {answer.records:,} events to {TOPIC}, acks=all and idempotent, replication factor {stack.brokers}")
    with progress(answer.records, "published") as advance:
        summary = publish_flights(
            dict(stack.connections()[0].extra),
            TOPIC,
            SEED,
            flights,
            replication_factor=stack.brokers,
            on_progress=advance,
        )
    say(f"published {summary.records:,} events, {summary.per_second:,.0f} records/s")
    marker.write_text(json.dumps({**wanted, "finished": True}))


def drain(stack: Stack, runs: DagRuns, watch: Stopwatch, say: Say) -> None:
    """Run the DAG until nothing is left to read, beside what its schedule runs."""
    finished = runs.settle()
    while _unread(stack):
        say(f"running the DAG {DAG}")
        run = runs.once()
        finished += [run, *runs.settle()]
        if run.outcome == NOTHING_NEW:
            break
    for each in finished:
        watch.add(each.seconds)


def _unread(stack: Stack) -> int:
    """Return how many offsets up to the last stable ones the ledger has not committed."""
    with connect_kafka(stack.connections()[0]) as kafka:
        partitions = kafka.snapshot(TOPIC).partitions
    with connect(stack.postgres.connection()) as session, transaction(session) as cursor:
        cursors = read_cursors(cursor, PIPELINE)
    next_offsets = cursors.next_offsets if cursors else {}
    return sum(each.last_stable - next_offsets.get(each.partition, 0) for each in partitions)
