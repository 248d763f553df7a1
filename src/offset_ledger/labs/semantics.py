"""Lab: the same events through an at-most-once consumer, an at-least-once consumer and the pipeline, all killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random

from psycopg2 import sql

from offset_ledger.connections import Connection, bootstrap_servers, environment_name
from offset_ledger.errors import UnexpectedError
from offset_ledger.failpoints import VARIABLE, Failpoint
from offset_ledger.labs.consumer import Commit, Orders
from offset_ledger.ledger.database import connect, named_sql, rows, transaction
from offset_ledger.ledger.migrate import migrate
from offset_ledger.publishing.producer import publish
from offset_ledger.publishing.record import Record
from offset_ledger.publishing.topics import create_topic

PARTITIONS = 2
# Where the process of the pipeline itself can be killed; slices die inside Spark, which starts them again.
PLACES = (
    Failpoint.AFTER_PLAN,
    Failpoint.AFTER_CLAIM,
    Failpoint.AFTER_STAGE,
    Failpoint.AFTER_VALIDATE,
    Failpoint.BEFORE_MERGE,
    Failpoint.AFTER_MERGE,
    Failpoint.AFTER_COMMIT,
)
_PIPELINE = """
pipeline: lab_semantics
source: {{connection: kafka_default, topic: {topic}}}
record: {{event_id: key, publish_at: $.at, columns: {{number: integer}}}}
target: {{connection: postgres_default, table: public.lab_pipeline}}
"""


@dataclass(frozen=True, slots=True)
class Semantics:
    """What one reader made of the events."""

    reader: str
    produced: int
    killed: int
    lost: int
    duplicated: int


@dataclass(frozen=True, slots=True)
class Bench:
    """The servers, a folder to write to, a topic that is not there yet, and the seed."""

    kafka: Connection
    postgres: Connection
    environment: Mapping[str, str]
    folder: Path
    topic: str
    seed: int
    say: Callable[[str], None]


def semantics(
    bench: Bench, events: int = 2_000, kills: int = 3, places: Sequence[Failpoint] = ()
) -> tuple[Semantics, ...]:
    """Publish events and let each reader process them, killed ``kills`` times and started again.

    ``places`` are where the pipeline is killed, one run each; by default the seed draws them.
    """
    random = Random(bench.seed)
    topic = bench.topic
    create_topic(bench.kafka.extra, topic, PARTITIONS, 1, {"retention.ms": "-1"})
    publish(_events(events), bench.kafka.extra, topic)
    produced = {f"e{number}" for number in range(events)}
    with connect(bench.postgres) as session:
        migrate(session)
    deaths = [random.randrange(1, events // (kills + 1)) for _ in range(kills)]
    drawn = tuple(places) or tuple(sorted(random.sample(PLACES, kills), key=PLACES.index))
    found = [_consumer(bench, topic, commit, deaths, produced) for commit in Commit]
    return (*found, _pipeline(bench, topic, drawn, produced))


def _events(count: int) -> list[Record]:
    value = b'{"at":"2026-01-01T12:00:00Z","number":%d}'
    return [Record(b"e%d" % number, value % number) for number in range(count)]


def _consumer(bench: Bench, topic: str, commit: Commit, deaths: Sequence[int], produced: set[str]) -> Semantics:
    name = {Commit.BEFORE: "at most once", Commit.AFTER: "at least once"}[commit]
    table = f"lab_{commit}"
    with connect(bench.postgres) as session, transaction(session) as cursor:
        cursor.execute(sql.SQL(named_sql("lab_consumed")).format(table=sql.Identifier(table)))
    orders = Orders(bootstrap_servers(bench.kafka), bench.postgres.to_json(), topic, PARTITIONS, table, commit, None)
    for death in (*deaths, None):
        bench.say(f"{name}: {f'killed after {death} rows' if death else 'to the end'}")
        life = [sys.executable, "-m", "offset_ledger.labs.consumer"]
        _live(bench, life, {}, death is not None, json.dumps(asdict(replace(orders, dies_after=death))))
    return _weigh(bench, name, table, len(deaths), produced)


def _pipeline(bench: Bench, topic: str, places: Sequence[Failpoint], produced: set[str]) -> Semantics:
    path = bench.folder / "lab_semantics.yaml"
    path.write_text(_PIPELINE.format(topic=topic))
    ingest = [sys.executable, "-m", "offset_ledger.cli", "ingest", str(path), "--until-drained"]
    for place in (*places, None):
        bench.say(f"pipeline: {f'killed at {place}' if place else 'to the end'}")
        _live(bench, ingest, {VARIABLE: f"{place}=kill"} if place else {}, place is not None)
    return _weigh(bench, "offset-ledger", "lab_pipeline", len(places), produced)


def _live(bench: Bench, command: list[str], more: Mapping[str, str], dies: bool, orders: str = "") -> None:
    """Run one life of a reader to its end, by SIGKILL or by itself.

    Raises:
        UnexpectedError: it ended otherwise.
    """
    connections = {environment_name(each.conn_id): each.to_json() for each in (bench.kafka, bench.postgres)}
    reports = {"OFFSET_LEDGER_REPORTS": str(bench.folder / "reports")}
    environment = {**os.environ, **bench.environment, **connections, **reports, **more}
    done = subprocess.run(
        command, env=environment, cwd=bench.folder, input=orders, capture_output=True, text=True, check=False
    )
    if done.returncode != (-signal.SIGKILL if dies else 0):
        end = " ".join(done.stderr.split())[-400:]
        raise UnexpectedError(f"{command[2]} ended with {done.returncode}, {'killed' if dies else '0'} was due: {end}")


def _weigh(bench: Bench, name: str, table: str, killed: int, produced: set[str]) -> Semantics:
    """Compare the identities in the table with what was produced."""
    query = sql.SQL("SELECT event_id FROM {}").format(sql.Identifier(table))
    with connect(bench.postgres) as session:
        found = Counter(row["event_id"] for row in rows(session, query))
    unknown = set(found) - produced
    if unknown:
        raise UnexpectedError(f"{table} has rows of events that were never published: {sorted(unknown)[:5]}")
    duplicated = sum(found.values()) - len(found)
    return Semantics(name, len(produced), killed, len(produced - set(found)), duplicated)
