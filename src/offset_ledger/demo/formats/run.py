"""This demo on servers of its own, which it starts and stops; their state stays until the next time."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from offset_ledger.demo.formats import files
from offset_ledger.demo.formats.story import Place, Say, Story
from offset_ledger.demo.proof import DemoProof, engines
from offset_ledger.demo.stopwatch import Stopwatch
from offset_ledger.errors import ConfigurationError
from offset_ledger.ledger.database import connect, named_sql, rows, transaction
from offset_ledger.ledger.migrate import migrate
from offset_ledger.local import stack as local
from offset_ledger.local.layout import PortChoice, stack_home
from offset_ledger.local.stack import Stack

FLIGHTS = 20_000
FEWEST = 100  # each wave needs some of every kind


@dataclass(frozen=True, slots=True)
class FormatsProof(DemoProof):
    """That of the formats, with the balance sheet by pipeline and the batches of the Avro pipeline."""

    home: Path


def run(flights: int | None, say: Say) -> FormatsProof:
    """Start servers, do what :class:`Story` tells, prove it, and stop the servers.

    Raises:
        ConfigurationError: with so few flights there is not one of each kind.
    """
    if flights is not None and flights < FEWEST:
        raise ConfigurationError(f"--formats needs at least {FEWEST} flights, found {flights}")
    watch = Stopwatch()
    home = _new_home(say)
    try:
        with watch.part("start the servers"):
            stack = _started(home, say)
        return _told(stack, flights or FLIGHTS, watch, say)
    finally:
        with watch.part("stop the servers"):
            local.down(home, say)


def _new_home(say: Say) -> Path:
    """A folder of its own inside the stack's, without what an earlier run has left there."""
    home = stack_home() / "demo-formats"
    if home.exists():
        local.down(home, say)
        shutil.rmtree(home)
    files.write_dags(home / "project" / "dags")
    return home


def _started(home: Path, say: Say) -> Stack:
    """One broker, Postgres, Airflow and a schema registry, on free ports beside those of ``make demo``."""
    stack = local.up(
        brokers=1,
        airflow=True,
        ports=PortChoice.any_free(),
        home=home,
        project=home / "project",
        say=say,
        registry=True,
    )
    with connect(stack.postgres.connection()) as session:
        migrate(session)
    return stack


def _told(stack: Stack, flights: int, watch: Stopwatch, say: Say) -> FormatsProof:
    place = Place(
        airflow=stack.airflow,
        dags=stack.project / "dags",
        kafka=stack.connections()[0],
        registry=stack.registry.connection(),
        stop_registry=stack.registry.stop,
        replication_factor=stack.brokers,
    )
    with connect(stack.postgres.connection()) as session:
        claims = list(Story(place, session, watch, say).claims(flights))
        with transaction(session) as cursor:
            claims.append(engines(cursor, files.PIPELINES))
        sheet = rows(session, named_sql("demo/format_balance"), {"pipelines": list(files.PIPELINES)})
        batches = rows(session, named_sql("batches/recent"), {"pipeline": files.AVRO, "limit": 20})
        return FormatsProof(sheet, batches, claims, watch.parts, watch.tasks, stack.home)
