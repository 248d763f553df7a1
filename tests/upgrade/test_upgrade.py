"""The ledgers of 0.1, 0.2 and the newest migration but one become today's, and their open batches are finished."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest

from offset_ledger.config.parse import parse_pipeline
from offset_ledger.connections import Connection
from offset_ledger.errors import ConfigurationError
from offset_ledger.kafka.client import connect_kafka
from offset_ledger.ledger.database import Session, check_migrated, connect, migrate, migrations, rows
from offset_ledger.model.batch import Origin
from offset_ledger.model.states import State
from offset_ledger.postgres_connection import postgres_arguments
from offset_ledger.publishing.producer import publish
from offset_ledger.publishing.topics import create_topic
from offset_ledger.repair.verify import verify
from offset_ledger.repair.verify_against_topic import compare_with_topic
from offset_ledger.run.ingest import ingest
from tests.fixtures.servers import Servers, execute
from tests.fixtures.topic_bench import quiet
from tests.upgrade.scenario import FIRST, PARTITIONS, PIPELINES, QUARANTINE, REST, ROWS, write_pipeline

DUMPS = sorted(Path(__file__).with_name("dumps").glob("*.sql"))
ME = Origin("test")


def restore(dump: Path, servers: Servers, topic: str) -> None:
    """Make the test's database what the dump says, as if its topic were this one."""
    with connect_kafka(servers.kafka) as kafka:
        snapshot = kafka.snapshot(topic)
    text = dump.read_text()
    for name, value in (("@topic_id@", snapshot.topic_id), ("@cluster_id@", snapshot.cluster_id), ("@topic@", topic)):
        text = text.replace(name, value)
    execute(servers.postgres, "DROP SCHEMA offset_ledger, offset_ledger_staging, offset_ledger_rows CASCADE")
    with closing(psycopg2.connect(**postgres_arguments(servers.postgres))) as session:
        session.autocommit = True
        session.cursor().execute("SET standard_conforming_strings = on")  # before the text is parsed
        session.cursor().execute(text)


def table(session: Session, name: str) -> set[tuple[object, ...]]:
    query = f"SELECT event_id, state, amount::text, _partition, _offset, _deleted FROM public.{name}"
    return {tuple(row) for row in rows(session, query)}


def quarantine(session: Session, name: str) -> set[tuple[object, ...]]:
    query = 'SELECT partition, "offset", value FROM offset_ledger.quarantine WHERE pipeline = %s'
    return {(row[0], row[1], bytes(row[2])) for row in rows(session, query, [name])}


def open_batches(session: Session) -> dict[str, str]:
    query = "SELECT pipeline, state FROM offset_ledger.batch WHERE state NOT IN ('committed', 'abandoned', 'pruned')"
    return {row[0]: row[1] for row in rows(session, query)}


@pytest.mark.parametrize("dump", DUMPS, ids=lambda dump: dump.stem)
def test_an_older_ledger_becomes_todays_and_its_open_batches_are_finished(
    dump: Path, servers: Servers, topic_name: Callable[[], str], tmp_path: Path
) -> None:
    topic, extra = topic_name(), dict(servers.kafka.extra)
    create_topic(extra, topic, PARTITIONS, 1, {"retention.ms": "-1"})
    publish([*FIRST, *REST], extra, topic)
    restore(dump, servers, topic)
    files = {left.name: write_pipeline(tmp_path, left, topic) for left in PIPELINES}
    newest = max(migrations())
    with connect(servers.postgres) as session:
        assert open_batches(session) == {"orders": State.VALIDATED, "planned": State.PLANNED}
        if int(dump.stem) < newest:
            with pytest.raises(ConfigurationError, match="the ledger lacks migrations"):
                next(ingest(parse_pipeline(files["orders"]), ME, until_drained=True, say=quiet))
        assert [name[:4] for name in migrate(session)] == [f"{n:04}" for n in migrations() if n > int(dump.stem)]
        for name, path in files.items():
            pipeline = parse_pipeline(path)
            assert verify(pipeline)[0] == []
            done = list(ingest(pipeline, ME, until_drained=True, say=quiet))
            assert len(done) == 1
            assert table(session, name) == ROWS
            assert quarantine(session, name) == QUARANTINE
            assert verify(pipeline)[0] == []
            assert compare_with_topic(pipeline).violations == ()
        assert open_batches(session) == {}


def test_an_older_version_leaves_a_newer_ledger_alone(postgres: Connection) -> None:
    newer = max(migrations()) + 1
    with connect(postgres) as session:
        rows(session, "INSERT INTO offset_ledger.migration (number, name) VALUES (%s, 'later') RETURNING 1", [newer])
        for act in (check_migrated, migrate):
            with pytest.raises(ConfigurationError, match=rf"has migrations \[{newer}\], .*; upgrade offset-ledger"):
                act(session)


def test_there_is_a_dump_of_todays_ledger() -> None:
    """A migration that is added needs a dump of the version before it, instead of the newest one: see make_dump.py."""
    numbers = sorted(migrations())
    assert int(DUMPS[-1].stem) >= numbers[-2]
