"""The servers of a run, what is in them, and the CPU seconds that they take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg2
from benchmarks.bench_stack import bench_stack
from benchmarks.peers.task import COLUMNS
from benchmarks.peers.workload import PARTITIONS, AnswerLines, Width, Workload, records
from kafka import KafkaConsumer, TopicPartition

from offset_ledger.base.progress import progress
from offset_ledger.errors import StackError
from offset_ledger.outside.connections import get_connection
from offset_ledger.outside.producer.publisher import publish
from offset_ledger.postgres.ledger import staging
from offset_ledger.postgres.ledger.database import Cursor, connect, transaction
from offset_ledger_kit.publishing.topics import create_topic
from offset_ledger_kit.sandbox.jars import KAFKA_VERSION, Artifact, Bundle, artifact_name, fetch
from offset_ledger_kit.sandbox.stack import Stack

PEERS = Path(".venv-peers")
_POSTGRES = Artifact("org.postgresql", "postgresql", "42.7.7")
# Of the pyspark that the peers have.
_SPARK_KAFKA = Artifact("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.0.0")
_LOGGING = Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.3")
_CONNECT = Artifact("org.apache.kafka", "connect-runtime", KAFKA_VERSION)
_DEBEZIUM = Artifact("io.debezium", "debezium-connector-jdbc", "3.4.0.Final")

Say = Callable[[str], None]


@contextmanager
def servers(home: Path, say: Say) -> Iterator[Stack]:
    """One broker and Postgres in this folder, stopped in the end; the environment has their connections."""
    with bench_stack(home, say=say) as stack:
        with connect(stack.postgres.connection()) as session, transaction(session) as cursor:
            cursor.execute("CREATE SCHEMA IF NOT EXISTS peer")
        yield stack


def jars(stack: Stack, say: Say) -> dict[str, list[str]]:
    """What the peers that run on Java need; one that cannot be fetched is empty, and its peers fail."""
    shipped = map(artifact_name, PEERS.glob("lib/python*/site-packages/pyspark/jars/*.jar"))
    found: dict[str, list[str]] = {}
    bundles = {
        "spark": Bundle((_SPARK_KAFKA,), without=frozenset(shipped)),
        "jdbc": Bundle((_POSTGRES,)),
        "connect": Bundle((_CONNECT, _LOGGING)),
        "debezium": Bundle((_DEBEZIUM, _POSTGRES)),
    }
    for name, bundle in bundles.items():
        try:
            found[name] = [str(each) for each in fetch(bundle, stack.java, say)]
        except StackError as error:
            say(f"{name}: {error}")
            found[name] = []
    return found


def fill(stack: Stack, workload: Workload, say: Say) -> list[tuple[str, str]]:
    """Publish the topic and write down the right answer, once each; the last record of each partition."""
    extra = dict(stack.connections()[0].extra)
    if create_topic(extra, workload.topic, PARTITIONS, 1, {"retention.ms": "-1"}):
        with progress(workload.records, f"published to {workload.topic}") as advance:
            publish(records(workload), extra, workload.topic, on_progress=advance)
    with connect(stack.postgres.connection()) as session, transaction(session) as cursor:
        cursor.execute("SELECT to_regclass(%s)", [workload.answer])
        if cursor.one()[0] is None:
            say(f"writing {workload.answer}")
            write_answer(cursor, workload)
    return _last_records(extra, workload.topic)


def write_answer(cursor: Cursor, workload: Workload) -> None:
    """Make the table of the right answer."""
    columns = COLUMNS | ({"pad": "text"} if workload.width is Width.WIDE else {})
    cursor.execute(f"CREATE TABLE {workload.answer} ({', '.join(f'{name} {kind}' for name, kind in columns.items())})")
    cursor.copy_expert(f"COPY {workload.answer} FROM STDIN", AnswerLines(workload), 1 << 16)
    cursor.execute(f"ANALYZE {workload.answer}")


def _last_records(extra: dict[str, str], topic: str) -> list[tuple[str, str]]:
    import msgspec

    consumer = KafkaConsumer(bootstrap_servers=extra["bootstrap.servers"].split(","))
    places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    ends = {place: end for place, end in consumer.end_offsets(places).items() if end}
    consumer.assign(list(ends))
    for place, end in ends.items():
        consumer.seek(place, end - 1)
    found: dict[TopicPartition, tuple[str, str]] = {}
    while len(found) < len(ends):
        for place, polled in consumer.poll(500).items():
            event = msgspec.json.decode(polled[-1].value)
            found[place] = (event["event_id"], event["publish_at"])
    consumer.close()
    return list(found.values())


def cpu_seconds(pids: Iterator[int] | list[int]) -> float:
    """User and system time of these processes, of their children that ended, and of those that run."""
    total = 0.0
    for pid in pids:
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            total += sum(process.cpu_times()[:4])
            for child in process.children(recursive=True):
                with suppress(psutil.Error):
                    total += sum(child.cpu_times()[:4])
    return total


def settle(superuser: Mapping[str, Any]) -> None:
    """Let Postgres do its old work now: what is timed next does not pay for the pages of what came before.

    Staging of batches that have ended goes, as by the step report: it would fill ``shared_buffers``.
    """
    with connect(get_connection("postgres_default")) as session:
        staging.drop_ended(session)
    with closing(psycopg2.connect(**superuser)) as admin:
        admin.autocommit = True
        with admin.cursor() as cursor:
            cursor.execute("VACUUM (ANALYZE)")
            cursor.execute("CHECKPOINT")
