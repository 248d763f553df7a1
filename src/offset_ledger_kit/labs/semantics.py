"""Lab: the same events through an at-most-once consumer, an at-least-once consumer and the pipeline, all killed."""

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
from typing import Any, Self

from psycopg2 import sql

from offset_ledger.base.failpoints import VARIABLE, Failpoint
from offset_ledger.errors import UnexpectedError
from offset_ledger.outside.connections import Connection, environment_name
from offset_ledger.outside.kafka.connection import bootstrap_servers
from offset_ledger.outside.producer.publisher import publish
from offset_ledger.outside.producer.record import Record
from offset_ledger.postgres.ledger.database import connect, migrate, named_sql, rows, transaction
from offset_ledger_kit.labs.consumer import Commit, Orders
from offset_ledger_kit.labs.trial import Report, table
from offset_ledger_kit.publishing.topics import create_topic

PARTITIONS = 2
# Where the process of the pipeline can be killed, whether it stages a batch itself or Spark does.
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
class SemanticsPlan:
    """The draw of a seed: after how many rows of a life the consumers die, where the pipeline does, and the events."""

    deaths: tuple[int, ...]
    places: tuple[Failpoint, ...]
    events: tuple[str, ...]

    @classmethod
    def draw(cls, seed: int, events: int = 2_000, kills: int = 3) -> Self:
        """Draw from the seed alone."""
        random = Random(seed)
        deaths = tuple(random.randrange(1, events // (kills + 1)) for _ in range(kills))
        places = tuple(sorted(random.sample(PLACES, kills), key=PLACES.index))
        return cls(deaths, places, tuple(f"e{number}-{random.randbytes(4).hex()}" for number in range(events)))

    def as_dict(self) -> dict[str, Any]:
        """Return it as data: where the readers die."""
        return {"consumers_die_after_rows": list(self.deaths), "pipeline_dies_at": [str(each) for each in self.places]}


@dataclass(frozen=True, slots=True)
class Semantics:
    """The events in one reader's table; ``duplicated`` has an event id once for each row too many."""

    reader: str
    produced: frozenset[str]
    killed: int
    lost: tuple[str, ...]
    duplicated: tuple[str, ...]

    def counts(self) -> dict[str, Any]:
        """Return it as data: how many there are of each."""
        produced, lost, duplicated = len(self.produced), len(self.lost), len(self.duplicated)
        events = {"produced": produced, "rows": produced - lost + duplicated, "lost": lost, "duplicated": duplicated}
        return {"reader": self.reader, "killed": self.killed, **events}


@dataclass(frozen=True, slots=True)
class Bench:
    """The servers, a folder to write to, and a topic that is not there yet."""

    kafka: Connection
    postgres: Connection
    environment: Mapping[str, str]
    folder: Path
    topic: str
    say: Callable[[str], None]


def semantics(bench: Bench, plan: SemanticsPlan) -> tuple[Semantics, ...]:
    """Publish the events and let each reader process them, killed and started again as planned."""
    create_topic(bench.kafka.extra, bench.topic, PARTITIONS, 1, {"retention.ms": "-1"})
    value = b'{"at":"2026-01-01T12:00:00Z","number":%d}'
    records = [Record(event.encode(), value % number) for number, event in enumerate(plan.events)]
    publish(records, bench.kafka.extra, bench.topic)
    with connect(bench.postgres) as session:
        migrate(session)
    return (*(_consumer(bench, plan, commit) for commit in Commit), _pipeline(bench, plan))


def report(plan: SemanticsPlan, results: Sequence[Semantics]) -> Report:
    """One row a reader."""
    rows = [row.counts() for row in results]
    return Report(plan.as_dict(), rows, table(rows))


def _consumer(bench: Bench, plan: SemanticsPlan, commit: Commit) -> Semantics:
    name = {Commit.BEFORE: "at most once", Commit.AFTER: "at least once"}[commit]
    kept = f"lab_{commit}"
    with connect(bench.postgres) as session, transaction(session) as cursor:
        cursor.execute(sql.SQL(named_sql("offset_ledger_kit:labs/consumed")).format(table=sql.Identifier(kept)))
    servers, postgres = bootstrap_servers(bench.kafka), bench.postgres.to_json()
    orders = Orders(servers, postgres, bench.topic, PARTITIONS, kept, commit, None)
    for death in (*plan.deaths, None):
        bench.say(f"{name}: {f'killed after {death} rows' if death else 'to the end'}")
        life = [sys.executable, "-m", "offset_ledger_kit.labs.consumer"]
        _run_once(bench, life, {}, death is not None, json.dumps(asdict(replace(orders, dies_after=death))))
    return _compare(bench, plan, name, kept, len(plan.deaths))


def _pipeline(bench: Bench, plan: SemanticsPlan) -> Semantics:
    path = bench.folder / "lab_semantics.yaml"
    path.write_text(_PIPELINE.format(topic=bench.topic))
    ingest = [sys.executable, "-m", "offset_ledger_kit.cli", "ingest", str(path), "--until-drained"]
    for place in (*plan.places, None):
        bench.say(f"pipeline: {f'killed at {place}' if place else 'to the end'}")
        _run_once(bench, ingest, {VARIABLE: f"{place}=kill"} if place else {}, place is not None)
    return _compare(bench, plan, "offset-ledger", "lab_pipeline", len(plan.places))


def _run_once(bench: Bench, command: list[str], more: Mapping[str, str], dies: bool, orders: str = "") -> None:
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


def _compare(bench: Bench, plan: SemanticsPlan, name: str, kept: str, killed: int) -> Semantics:
    """Compare the identities in the table with what was produced."""
    query = sql.SQL(named_sql("offset_ledger_kit:labs/event_ids")).format(table=sql.Identifier(kept))
    with connect(bench.postgres) as session:
        in_table = Counter(row["event_id"] for row in rows(session, query))
    produced = frozenset(plan.events)
    unknown = set(in_table) - produced
    if unknown:
        raise UnexpectedError(f"{kept} has rows of events that were never published: {sorted(unknown)[:5]}")
    duplicated = tuple(sorted((in_table - Counter(set(in_table))).elements()))
    return Semantics(name, produced, killed, tuple(sorted(produced - set(in_table))), duplicated)
