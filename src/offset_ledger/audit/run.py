"""One audit: facts from the brokers and the ledger, the rules, the results kept, and what changed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from psycopg2.extras import execute_values
from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from offset_ledger.audit.facts import ReaderFacts
from offset_ledger.audit.finding import AuditFinding, Change, Severity, changes
from offset_ledger.audit.gather import Reading, read_facts
from offset_ledger.audit.rules import check_topic
from offset_ledger.config.model import Merge, Pipeline, Tombstone
from offset_ledger.connections import Connection, get_connection
from offset_ledger.kafka.brokers import elect_preferred_leaders
from offset_ledger.kafka.client import KafkaClient, connect_kafka
from offset_ledger.ledger import pipelines
from offset_ledger.ledger.database import Session, named_sql, open_ledger, open_ledger_at, transaction
from offset_ledger.model.batch import Origin, current_origin

_PRESETS = {"@quarterly": "0 0 1 */3 *"}  # of Airflow's, the one that croniter does not know
_ELECTION_SECONDS = 10.0
_RUNS = 800  # a week of runs every five minutes within office hours


@dataclass(frozen=True, slots=True)
class Audit:
    """The findings of one audit of one topic, the worst first, and the changes since the one before, if any."""

    pipeline: str | None
    topic: str
    audited_at: datetime
    findings: tuple[AuditFinding, ...]
    changes: tuple[Change, ...] = ()
    previous_at: datetime | None = None

    def failing(self, threshold: Severity) -> tuple[AuditFinding, ...]:
        """The findings at that severity or worse."""
        return tuple(finding for finding in self.findings if finding.severity.rank <= threshold.rank)


def audit_pipeline(pipeline: Pipeline, elect: bool = False) -> Audit:
    """Audit the pipeline's topic and keep the result in its ledger.

    Raises:
        UnknownTopic: the cluster has no such topic.
        BrokerUnavailable, DatabaseUnavailable: a server is away.
    """
    with open_ledger(pipeline) as session:
        return keep(session, _audit_for(pipeline, session, elect), current_origin())


def examine(pipeline: Pipeline) -> Audit:
    """Audit the pipeline's topic without keeping the result.

    Raises:
        UnknownTopic, BrokerUnavailable, DatabaseUnavailable: as :func:`audit_pipeline`.
    """
    with open_ledger(pipeline) as session:
        return _audit_for(pipeline, session)


def _audit_for(pipeline: Pipeline, session: Session, elect: bool = False) -> Audit:
    kafka = get_connection(pipeline.source.connection)
    return _audit(kafka, pipeline.source.topic, _reading(session, pipeline), elect)


def audit_topic(connection: Connection, topic: str, ledger: Connection | None = None, elect: bool = False) -> Audit:
    """Audit a topic that no pipeline needs to read; the result is kept if a ledger is given.

    Raises:
        UnknownTopic: the cluster has no such topic.
        BrokerUnavailable, DatabaseUnavailable: a server is away.
    """
    audit = _audit(connection, topic, None, elect)
    if ledger is None:
        return audit
    with open_ledger_at(ledger) as session:
        return keep(session, audit, current_origin())


def _audit(connection: Connection, topic: str, reading: Reading | None, elect: bool) -> Audit:
    if elect:
        with connect_kafka(connection) as kafka:
            elect_preferred(kafka, topic)
    facts = read_facts(connection, topic, reading)
    return Audit(facts.reader.pipeline if facts.reader else None, facts.topic, facts.taken_at, check_topic(facts))


def _reading(session: Session, pipeline: Pipeline) -> Reading:
    with transaction(session) as cursor:
        known = pipelines.read_cursors(cursor, pipeline.name)
        cursor.execute(
            named_sql("audit/last_cursor_move"),
            {"pipeline": pipeline.name, "topic_id": known.topic_id if known else None},
        )
        last_commit = cursor.one()[0]
        cursor.execute(named_sql("audit/unread_since"), {"pipeline": pipeline.name})
        since = {row["partition"]: row["since"] for row in cursor.fetchall()}
    reader = ReaderFacts(
        pipeline=pipeline.name,
        event_id_is_key=pipeline.record.event_id is None,
        publish_at_is_timestamp=pipeline.record.publish_at is None,
        newest_wins=pipeline.target.merge is Merge.NEWEST_WINS,
        value_bytes=pipeline.limits.value_bytes,
        last_commit=last_commit,
        deletes_by_tombstone=pipeline.record.tombstone is Tombstone.DELETE,
        runs_every=_runs_every(pipeline),
    )
    return Reading(reader, known.topic_id, known.next_offsets, since) if known else Reading(reader)


def _runs_every(pipeline: Pipeline) -> timedelta | None:
    """The longest time between two of the next runs; None where the schedule is not what starts them."""
    if pipeline.schedule is None or pipeline.wake_on_data:
        return None
    from croniter import croniter

    times = croniter(_PRESETS.get(pipeline.schedule, pipeline.schedule), datetime.now(UTC))
    fires = [times.get_next(datetime) for _ in range(_RUNS)]
    longest: timedelta = max(later - earlier for earlier, later in pairwise(fires))
    return longest


def keep(session: Session, audit: Audit, origin: Origin) -> Audit:
    """Write an audit down, with who ran it; the same audit with what changed since the one before."""
    with transaction(session) as cursor:
        cursor.execute(named_sql("audit/last"), {"pipeline": audit.pipeline, "topic": audit.topic})
        previous = cursor.fetchall()
        which, whose = (audit.audited_at, audit.pipeline, audit.topic), (origin.who, origin.dag_id, origin.run_id)
        rows: list[tuple[Any, ...]] = [
            (*which, f.rule, f.severity.value, f.found, f.risk, f.remedy, *whose) for f in audit.findings
        ]
        execute_values(cursor, named_sql("audit/insert"), rows)
    before = {row["rule"]: Severity(row["severity"]) for row in previous}
    changed = changes(before or None, {f.rule: f.severity for f in audit.findings})
    return replace(audit, changes=changed, previous_at=previous[0]["audited_at"] if previous else None)


def elect_preferred(kafka: KafkaClient, topic: str) -> tuple[int, ...]:
    """Bring leaders back to their preferred brokers; return the partitions whose leader is still another one.

    A partition whose preferred broker is away or not in sync stays where it is.

    Raises:
        UnknownTopic: the cluster has no such topic.
        BrokerUnavailable: no answer in time.
    """
    moved = _moved(kafka, topic)
    if not moved:
        return ()
    electable = sorted(partition for partition, p in moved.items() if p["replica_nodes"][0] in p["isr_nodes"])
    if electable:
        kafka.ask(lambda admin: elect_preferred_leaders(admin, topic, electable))
    waiting = Retrying(
        retry=retry_if_result(lambda left: bool(set(electable) & set(left))),
        stop=stop_after_delay(_ELECTION_SECONDS),
        wait=wait_fixed(0.1),
    )
    try:
        return tuple(waiting(_moved, kafka, topic))
    except RetryError as late:
        return tuple(late.last_attempt.result())


def _moved(kafka: KafkaClient, topic: str) -> dict[int, Mapping[str, Any]]:
    described = kafka.describe(topic)
    return {
        p["partition_index"]: p
        for p in described["partitions"]
        if p["leader_id"] >= 0 and p["leader_id"] != p["replica_nodes"][0]
    }
