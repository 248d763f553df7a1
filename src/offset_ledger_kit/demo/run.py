"""The demo: the flights of 2013 through the real stack and Airflow, and the proof that each arrived exactly once."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from offset_ledger.base.ids import AUDIT_DAG
from offset_ledger.base.progress import progress
from offset_ledger.errors import StackError
from offset_ledger.model.request import NOTHING_NEW
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.pipeline_file.pipeline import Stage
from offset_ledger.postgres.ledger.database import Cursor, connect, migrate, named_sql, rows, transaction
from offset_ledger.postgres.ledger.pipelines import read_cursors
from offset_ledger_kit.demo.dag_runs import DagRuns
from offset_ledger_kit.publishing.disturbances import Expected, expected, publish_flights
from offset_ledger_kit.publishing.flights import Event, winning_events
from offset_ledger_kit.sandbox import stack as local
from offset_ledger_kit.sandbox.stack import Stack

TOPIC = "flights.events"
PIPELINE = "flights"
DAG = f"ingest_{PIPELINE}"
SEED = 2013

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Claim:
    """One thing that must be true, with the expected and the actual value."""

    text: str
    expected: Any
    found: Any

    @property
    def holds(self) -> bool:
        """Return whether it is true."""
        return bool(self.expected == self.found)

    def __str__(self) -> str:
        return f"{'ok  ' if self.holds else 'WRONG'} {self.text}: {self.found}" + (
            "" if self.holds else f", expected {self.expected}"
        )


@dataclass(frozen=True, slots=True)
class DemoProof:
    """The result of a demo: balance sheet, newest batches, each claim with its result, and where the time went.

    ``pages`` are the quality reports of its batches.
    """

    sheet: list[Any]
    batches: list[Any]
    claims: list[Claim]
    parts: Mapping[str, float]
    tasks: Mapping[str, float]
    stack: Stack
    pages: Sequence[Path] = ()

    @property
    def holds(self) -> bool:
        """Return whether every claim is true."""
        return all(claim.holds for claim in self.claims)

    @property
    def seconds(self) -> float:
        """The seconds that all of it took."""
        return sum(self.parts.values())


class Stopwatch:
    """Seconds by part of the demo, and by task of its DAG runs."""

    def __init__(self) -> None:
        self.parts: dict[str, float] = {}
        self.tasks: dict[str, float] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time the block as a part of that name, or as more of it."""
        began = time.monotonic()
        yield
        self.parts[name] = self.parts.get(name, 0.0) + time.monotonic() - began

    def add(self, tasks: Mapping[str, float]) -> None:
        """Add what the tasks of one run took."""
        for name, seconds in tasks.items():
            self.tasks[name] = self.tasks.get(name, 0.0) + seconds


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
    audits = DagRuns(stack.airflow, AUDIT_DAG, say)
    audits.unpause()  # which starts the run of yesterday
    with connect(stack.postgres.connection()) as session:
        say("checking the table against the CSV")
        with watch.part("check"), transaction(session) as cursor:
            claims = [*prove(cursor, answer, flights), engines(cursor, [PIPELINE])]
            before = fingerprint(cursor)
        say("running the DAG once more")
        with watch.part("run it once more"):
            again = runs.trigger()
            audits.settle()
        with transaction(session) as cursor:
            claims.append(Claim("a second run planned nothing", True, again.tasks.get("plan") == "skipped"))
            claims.append(Claim("a second run changed no row", before, fingerprint(cursor)))
        ledger = rows(session, named_sql("batches/recent"), {"pipeline": PIPELINE, "limit": 20})
        sheet = rows(session, named_sql("offset_ledger_kit:demo/balance"))
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
    """Run the DAG until nothing is left to read, in addition to its scheduled runs."""
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


def fingerprint(cursor: Cursor) -> tuple[Any, ...]:
    """Changes with every row that is inserted, rewritten or deleted."""
    cursor.run("offset_ledger_kit:demo/fingerprint")
    return tuple(cursor.one())


def prove(cursor: Cursor, answer: Expected, limit: int | None) -> Iterator[Claim]:
    """Every claim of the demo about table and quarantine; ``answer`` is what ``limit`` flights must come to."""
    cursor.run("offset_ledger_kit:demo/flight_totals")
    count, cancelled, departures, mean = cursor.one()
    if limit is not None:
        yield Claim("rows", limit, count)
    else:
        yield Claim("rows, one for each flight of the CSV", 336_776, count)
        yield Claim("cancelled", 8_255, cancelled)
        yield Claim("departures", 328_521, departures)
        yield Claim("mean departure delay in minutes", "12.6391", str(mean))
    cursor.run("offset_ledger_kit:demo/flights")
    in_table = {tuple(row) for row in cursor.fetchall()}
    newest = {_row(event) for event in winning_events(limit)}
    yield Claim("flights whose newest state is not in the table", 0, len(newest - in_table))
    yield Claim("rows that are no flight's newest state", 0, len(in_table - newest))
    cursor.run("offset_ledger_kit:demo/quarantined")
    quarantined = Counter((bytes(row[0]), row[1]) for row in cursor.fetchall())
    refused = Counter({(value, malformation.path): 1 for value, malformation in answer.refused.items()})
    yield Claim("malformed records not in quarantine with the right reason", 0, (refused - quarantined).total())
    yield Claim("records in quarantine that are not malformed", 0, (quarantined - refused).total())
    cursor.run("offset_ledger_kit:demo/balance_totals")
    inserted, others, in_quarantine, rest = map(int, cursor.one())
    yield Claim("balance sheet: inserted", answer.flights, inserted)
    yield Claim("balance sheet: updated, superseded and duplicate", answer.superseded, others)
    yield Claim("balance sheet: quarantined", len(answer.refused), in_quarantine)
    yield Claim("balance sheet: deleted and skipped", 0, rest)


def _row(event: Event) -> tuple[Any, ...]:
    flight, schedule, actual = event.flight, event.schedule, event.actual
    times = ("dep_time", "dep_delay", "arr_time", "arr_delay", "air_time")
    return (
        *(event.event_id, event.publish_at, str(event.status), flight.carrier, flight.number, flight.tailnum),
        *(flight.origin, flight.dest, schedule.date, event.distance),
        *(getattr(actual, name, None) for name in times),
    )


def engines(cursor: Cursor, pipelines: Sequence[str]) -> Claim:
    """Claim that Spark staged the large batches of these pipelines, and the task itself the others."""
    cursor.run("offset_ledger_kit:demo/engines", pipelines=list(pipelines))
    batches = cursor.fetchall()
    below = Stage().process_below
    wanted = {each["batch_id"]: "process" if each["offsets"] < below else "spark" for each in batches}
    staged = {each["batch_id"]: each["engine"] for each in batches}
    return Claim(f"what staged each batch (spark from {below:,} offsets on)", wanted, staged)
