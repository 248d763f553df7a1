"""With passwords, TLS and no more rights than docs/production.md gives: what an installation of one's own has."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from psycopg2 import errors as pg

from offset_ledger.errors import AccessDenied, PublishFailed
from offset_ledger.model.batch import Origin
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.states import State
from offset_ledger.operations.audit.run import read_facts
from offset_ledger.operations.doctor.run import examine_pipelines
from offset_ledger.operations.rename import forget_pipeline, rename_pipeline
from offset_ledger.operations.repair.verify import verify
from offset_ledger.operations.status.brokers import ask_broker
from offset_ledger.operations.status.reader import read_ledger
from offset_ledger.operations.status.status import status
from offset_ledger.outside.connections import Connection, environment_name
from offset_ledger.outside.kafka.bulk_reader import bulk_reader
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.outside.kafka.records import record_reader
from offset_ledger.outside.producer.publisher import publish
from offset_ledger.outside.producer.record import Record
from offset_ledger.outside.producer.settings import read_settings
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger import staging
from offset_ledger.postgres.ledger.database import connect, migrate, named_sql, rows, transaction
from offset_ledger.postgres.ledger.decisions import decide
from offset_ledger.postgres.ledger.redrive import RedriveChoice, Selection
from offset_ledger.postgres.ledger.staging import StageFailure
from offset_ledger.steps.commit.step import commit
from offset_ledger.steps.decide.accept_topic import accept_table
from offset_ledger.steps.run.ingest import ingest, run_batch, validate_or_raise
from offset_ledger.steps.run.redrive import dismiss, list_quarantined, plan_redrive, stage_redrive
from offset_ledger_kit.publishing.topics import create_topic
from tests.fixtures.raw import Raw, commit_raw
from tests.fixtures.secured import Secured
from tests.fixtures.servers import Servers, execute
from tests.fixtures.staged import planned
from tests.fixtures.tables import pipeline_of
from tests.fixtures.topic_reader import values
from tests.paths import ROOT

pytestmark = pytest.mark.full

ME = Origin("test")
PAGE = (ROOT / "docs" / "production.md").read_text()
RIGHTS = (ROOT / "deploy" / "postgres" / "rights.sql").read_text()
PIPELINE = """
pipeline: orders
source: {{connection: kafka_default, topic: shop.orders}}
record:
  event_id: key
  publish_at: kafka_timestamp
  tombstone: delete  # with it, a plan removes what earlier ones have noted of the topic
  columns: {{amount: "numeric(12,{digits})"}}
target: {{connection: postgres_default, table: sales.orders}}
quality: {{max_quarantined_share: 1}}
stage: {{engine: {engine}}}
"""


@dataclass(frozen=True)
class Roles:
    """The logins of docs/production.md in a database of their own, under names of their own."""

    owner: Connection
    writer: Connection
    reader: Connection


def as_written(beginning: str, name: str) -> str:
    """The SQL block of the page that begins so, for this database."""
    (block,) = re.findall(rf"```sql\n({re.escape(beginning)}.*?)```", PAGE, re.S)
    return renamed(block, name).replace("DATABASE shop", f"DATABASE {name}")


def renamed(sql: str, name: str) -> str:
    """The SQL with the logins of this database."""
    return re.sub(r"\bledger_", f"{name}_", sql)


@pytest.fixture
def roles(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> Iterator[Roles]:
    name = f"r{uuid.uuid4().hex[:8]}"
    admin = servers.superuser
    execute(admin, f"CREATE DATABASE {name}")
    inside = replace(servers.postgres, schema=name)
    made = Roles(*(replace(inside, login=f"{name}_{role}") for role in ("owner", "writer", "reader")))
    try:
        execute(servers.stack.postgres.superuser(name), as_written("-- once, as superuser", name))
        for login in (made.owner.login, made.writer.login, made.reader.login):
            execute(admin, f"ALTER ROLE {login} LOGIN PASSWORD '{inside.password}'")
        with connect(made.owner) as session:
            migrate(session)
        for _ in range(2):  # as after a later migrate
            execute(made.owner, renamed(RIGHTS, name))
        execute(made.owner, as_written("-- once, each schema with target tables", name))
        monkeypatch.setenv(environment_name("postgres_default"), made.writer.to_json())
        yield made
    finally:
        execute(admin, f"DROP DATABASE {name} WITH (FORCE)")
        execute(admin, f"DROP ROLE IF EXISTS {name}_owner, {name}_writer, {name}_reader")


def pipeline(folder: Path, digits: int, engine: str = "spark") -> Pipeline:
    return pipeline_of(folder, PIPELINE, digits=digits, engine=engine)


@pytest.mark.usefixtures("spark")
def test_a_pipeline_runs_with_the_rights_of_the_page_and_no_others(
    roles: Roles, secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(environment_name("kafka_default"), secured.connection.to_json())
    create_topic({"bootstrap.servers": secured.open}, "shop.orders", 1, 1)
    sent = [Record(b"%d" % n, json.dumps({"amount": amount}).encode()) for n, amount in enumerate((1.5, 2.125))]
    publish(sent, {"bootstrap.servers": secured.open}, "shop.orders")
    orders = pipeline(tmp_path, 2)

    with pytest.raises(AccessDenied, match=r"TopicAuthorizationFailedError.*docs/production\.md"):
        status(orders)
    (commands,) = re.findall(r"```\n(kafka-acls\.sh.*?)```", PAGE, re.S)
    secured.allow(commands)
    (done,) = ingest(orders, ME, until_drained=False, say=print)
    assert (done.committed.total.inserted, done.committed.total.quarantined) == (1, 1)
    with connect_kafka(secured.connection) as kafka:
        assert kafka.group_offsets("offset-ledger.orders", "shop.orders") == {0: 2}

    execute(roles.writer, "ALTER TABLE sales.orders ALTER amount TYPE numeric(12,3)")  # its own table
    orders = pipeline(tmp_path, 3)
    run_batch(orders, plan_redrive(orders, RedriveChoice(), ME, None), ME, print)
    assert list_quarantined(orders, RedriveChoice(limit=5))[0]["records"] == 0
    assert verify(orders) == ([], 12)

    publish([Record(b"7", b'{"amount": 7}')], {"bootstrap.servers": secured.open}, "shop.orders")
    (done,) = ingest(pipeline(tmp_path, 3, engine="process"), ME, until_drained=False, say=print)
    assert (done.committed.total.inserted, "session" in done.seconds) == (1, False)  # read without Spark
    failure, submission = StageFailure("OffsetExpired", "gone"), str(uuid.uuid4())
    with connect(roles.writer) as session, transaction(session) as cursor:
        staging.record_failure(cursor, submission, done.committed.batch.batch_id, failure)
        assert staging.read_failure(cursor, submission) == failure
    with connect(roles.reader) as session:
        assert rows(session, "SELECT error FROM offset_ledger.stage_failure") == [["OffsetExpired"]]
        assert [row[0] for row in rows(session, "SELECT state FROM offset_ledger.batch ORDER BY 1")] == [
            "committed"
        ] * 3


@pytest.mark.parametrize("reader", [bulk_reader, record_reader])
def test_a_topic_that_may_not_be_read_is_denied(secured: Secured, reader: Any) -> None:
    topic = f"shop.unread.{reader.__name__}"
    create_topic({"bootstrap.servers": secured.open}, topic, 1, 1)
    publish([Record(b"k", b"1")], {"bootstrap.servers": secured.open}, topic)
    secured.allow(f"--allow-principal User:ledger --operation Describe --topic {topic}")
    denied = pytest.raises(AccessDenied, match=r"does not let this login do it .*docs/production\.md")
    with denied, reader(secured.connection) as read:
        list(read(topic, OffsetRange(0, 0, 1)))


def test_the_doctor_names_the_rights_that_are_missing(
    roles: Roles, secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(environment_name("kafka_default"), secured.connection.to_json())
    path = tmp_path / "orders.yaml"
    path.write_text(PIPELINE.format(digits=2, engine="spark").replace("shop.orders", "shop.examined"))
    create_topic({"bootstrap.servers": secured.open}, "shop.examined", 1, 1)

    def rights() -> dict[str, tuple[str, str]]:
        found = examine_pipelines([parse_pipeline(path)])
        return {each.subject: (str(each.level), each.text) for each in found if "rights" in each.subject}

    on_table, on_topic = "Postgres postgres_default: rights for sales.orders", "orders: topic shop.examined: rights"
    assert rights() == {on_table: ("ok", "all that the login needs")}  # the topic may not even be described
    secured.allow("--allow-principal User:ledger --operation Describe --topic shop.examined")
    execute(roles.owner, f"REVOKE UPDATE ON offset_ledger.batch FROM {roles.writer.login}")
    execute(roles.owner, f"REVOKE CREATE ON SCHEMA sales FROM {roles.writer.login}")
    missing = "missing: CREATE on schema sales, UPDATE on offset_ledger.batch"
    assert rights() == {on_table: ("problem", missing), on_topic: ("problem", "missing: READ, DESCRIBE_CONFIGS")}


def test_the_size_of_a_log_is_unknown_to_a_login_that_may_not_describe_the_cluster(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(environment_name("kafka_default"), secured.connection.to_json())
    path = tmp_path / "orders.yaml"
    path.write_text(PIPELINE.format(digits=2, engine="spark").replace("shop.orders", "shop.sized"))
    create_topic({"bootstrap.servers": secured.open}, "shop.sized", 2, 1, {"retention.bytes": "1000000"})
    publish([Record(b"k", b"v", partition=0)], {"bootstrap.servers": secured.open}, "shop.sized")
    secured.allow("--allow-principal User:ledger --operation Read --topic shop.sized")
    for refused in (lambda: ask_broker(parse_pipeline(path), 20), lambda: read_facts(secured.connection, "shop.sized")):
        with pytest.raises(AccessDenied, match=r"TopicAuthorizationFailedError: .*the settings of topic shop\.sized"):
            refused()
    secured.allow("--allow-principal User:ledger --operation DescribeConfigs --topic shop.sized")

    def sizes() -> list[int | None]:
        logs = ask_broker(parse_pipeline(path)).logs
        facts = read_facts(secured.connection, "shop.sized").partitions
        assert [logs[p.partition].size for p in facts] == [p.size_bytes for p in facts]
        return [p.size_bytes for p in facts]

    assert sizes() == [None, None]
    secured.allow("--allow-principal User:ledger --operation Describe --cluster kafka-cluster")
    written, empty = sizes()
    assert (bool(written), empty) == (True, 0)


def test_records_are_published_through_the_same_connection(secured: Secured) -> None:
    extra, topic = secured.connection.extra, "shop.published"
    create_topic({"bootstrap.servers": secured.open}, topic, 1, 1)
    patient_enough = read_settings(extra, {"delivery.timeout.ms": "15000", "request.timeout.ms": "5000"})
    with pytest.raises(AccessDenied, match="TopicAuthorizationFailedError"):
        publish([Record(b"k", b"v")], extra, topic)
    secured.allow(f"--allow-principal User:ledger --topic {topic} --operation Describe")
    with pytest.raises(PublishFailed, match="AuthorizationFailed") as caught:
        publish([Record(b"k", b"v")], extra, topic, settings=patient_enough)
    assert caught.value.unconfirmed == (Record(b"k", b"v"),)
    secured.allow(f"--allow-principal User:ledger --topic {topic} --operation Write")
    publish([Record(b"k", b"allowed")], extra, topic)
    assert values({"bootstrap.servers": secured.open}, topic) == [b"allowed"]


def test_what_postgres_does_not_allow_is_access_denied(roles: Roles) -> None:
    with pytest.raises(AccessDenied, match="permission denied for table batch"), connect(roles.reader) as session:
        rows(session, "DELETE FROM offset_ledger.batch RETURNING 1")
    with pytest.raises(AccessDenied, match="permission denied for database"), connect(roles.writer) as session:
        rows(session, "CREATE SCHEMA elsewhere")


CHANGED = {  # by the steps and by decisions; everything else stays as it was written
    *("batch", "batch_range", "batch_profile", "cursor", "pipeline", "target_table", "slice", "followed_column"),
    *("quarantine", "redrive_record", "dead_letter", "dead_letter_mark", "decision", "notification"),
    *("schema_boundary", "stage_failure", "column_group"),
}
KEPT = {
    "batch": {"batch_id", "pipeline", "kind", "topic_id", "code_version", "planned_at", "request"},
    "batch_range": {"batch_id", "pipeline", "topic_id", "partition", "from_offset", "log_start", "last_stable"},
    "cursor": {"pipeline", "topic_id", "partition"},
    "quarantine": {"pipeline", "topic_id", "partition", "offset", "timestamp", "key", "headers", "value", "reasons"},
    "decision": {"pipeline", "kind", "question", "details", "asked_at"},
}


def test_every_table_that_a_statement_changes_has_rights_for_it() -> None:
    found = set()
    for path in (ROOT / "src" / "offset_ledger").rglob("*"):
        if path.suffix not in (".sql", ".py") or path.parent.name in ("prune", "renaming", "migrations"):
            continue
        text = path.read_text()
        inserts = re.findall(r"INSERT INTO offset_ledger\.(\w+)", text) if "DO UPDATE" in text else []
        found |= {*inserts, *re.findall(r"UPDATE offset_ledger\.(\w+)", text)}
    assert found == CHANGED


def may(connection: Connection, statements: Mapping[tuple[str, ...], str]) -> set[tuple[str, ...]]:
    """Which of these the login may do, tried one by one."""
    allowed = set(statements)
    with connect(connection) as session:
        for what, statement in statements.items():
            with session.cursor() as cursor:
                try:
                    cursor.execute(statement)
                except pg.InsufficientPrivilege:
                    allowed.remove(what)
                except pg.IntegrityError:
                    pass  # of a row without values
            session.rollback()
    return allowed


def test_the_rights_of_the_page_change_no_history_and_show_no_bytes(roles: Roles) -> None:
    query = (
        "SELECT relname, attname FROM pg_class c JOIN pg_attribute ON attrelid = c.oid WHERE attnum > 0"
        " AND relkind = 'r' AND relnamespace = 'offset_ledger'::regnamespace AND NOT attisdropped"
    )
    with connect(roles.owner) as session:
        columns = [(row[0], row[1]) for row in rows(session, query)]
    tables = {table for table, _ in columns}
    update = {(t, c): f'UPDATE offset_ledger.{t} SET "{c}" = DEFAULT WHERE false' for t, c in columns}
    insert = {(t,): f"INSERT INTO offset_ledger.{t} DEFAULT VALUES" for t in {*tables, "quarantined"}}
    delete = {(t,): f"DELETE FROM offset_ledger.{t} WHERE false" for t in tables}
    changed = may(roles.writer, update)
    assert {table for table, _ in changed} == CHANGED
    assert {(t, c) for t, kept in KEPT.items() for c in kept} & changed == set()
    assert {t for (t,) in set(insert) - may(roles.writer, insert)} == {
        *("migration", "pruning", "pruned_reread", "pruned_dismissal", "renaming", "quarantined")
    }
    assert may(roles.writer, delete) == {("topic_look",), ("followed_column",)}
    select = {(t, c): f'SELECT "{c}" FROM offset_ledger.{t}' for t, c in columns}
    hidden = {("quarantine", c) for c in ("key", "headers", "value", "reasons", "retried_reasons")}
    assert set(select) - may(roles.reader, select) == {*hidden, ("redrive_record", "reasons")}
    assert may(roles.reader, {**update, **insert, **delete}) == set()


def test_only_the_owner_renames_and_forgets(roles: Roles, tmp_path: Path) -> None:
    with connect(roles.writer) as session:
        commit_raw(session, pipeline(tmp_path, 2, engine="process"), [Raw(0, 0, b'{"amount": 1}', b"a")])
    with pytest.raises(AccessDenied, match="permission denied"), connect(roles.writer) as session:
        rename_pipeline(session, "orders", "others", ME, "a trial")
    with connect(roles.owner) as session:
        rename_pipeline(session, "orders", "others", ME, "a trial")
        execute(roles.owner, "DROP TABLE sales.orders")
        assert forget_pipeline(session, "others", ME, "a trial", folder=tmp_path) == "others~2"


def test_the_steps_and_decisions_need_no_other_rights_and_the_reader_sees_no_value(
    roles: Roles, tmp_path: Path
) -> None:
    orders = pipeline(tmp_path, 2, engine="process")
    with connect(roles.writer) as session:
        refused = Raw(0, 1, b'{"amount": "4111 1111 1111 1111"}', b"b", (("trace", b"secret"),))
        commit_raw(session, orders, [Raw(0, 0, b'{"amount": 1}', b"a"), refused, replace(refused, offset=2)])
        dismiss(orders, Selection(0, (1, 2)), ME, "never")
        dismiss(orders, Selection(0, (1,)), ME, "or perhaps", undo=True)
        batch = plan_redrive(orders, RedriveChoice(), ME).batch
        assert batch is not None
        stage_redrive(orders, batch.batch_id, ME)
        validate_or_raise(orders, batch.batch_id, ME)
        commit(orders, batch.batch_id, ME)
        abandoned = planned(session, orders, [OffsetRange(0, 3, 4)])
        decide(session, abandoned, State.ABANDONED, ME, "no")
        accept_table(orders, ME, "counted")
    assert verify(orders) == ([], 12)
    with connect(roles.reader) as session:
        found = rows(session, "SELECT * FROM offset_ledger.quarantined ORDER BY quarantine_id")
        assert [(each["offset"], each["value_bytes"], each["retried_by"]) for each in found] == [
            (1, len(refused.value or b""), batch.batch_id),
            (2, len(refused.value or b""), None),
        ]
        assert [each["reasons"] for each in found] == [[{"code": "type", "path": "$.amount"}]] * 2
        assert "4111" not in str(found)
        with transaction(session) as cursor:
            assert [row["quarantined"] for row in read_ledger(cursor).pipelines.values()] == [1]
            cursor.execute(named_sql("exporter/pipelines"), {"limit": 9, "pipelines": ["orders"]})
            assert [row["pipeline"] for row in cursor.fetchall()] == ["orders"]
