"""Rename and forget: the file with the new name continues at the next offset; a free name or table begins anew."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from psycopg2 import errors as pg

from offset_ledger.errors import TransientError
from offset_ledger.model.states import State
from offset_ledger.operations.repair.verify import verify
from offset_ledger.operations.repair.verify_against_topic import compare_with_topic
from offset_ledger.outside.producer.publisher import publish
from offset_ledger.outside.producer.record import Record
from offset_ledger.pipeline_file.parse import parse_named
from offset_ledger.postgres.ledger import pipelines
from offset_ledger.postgres.ledger.database import Session, connect, named_sql, rows, transaction
from offset_ledger.postgres.ledger.decisions import decide
from offset_ledger.postgres.ledger.redrive import Selection
from offset_ledger.steps.plan.step import plan
from offset_ledger.steps.run.redrive import dismiss
from offset_ledger_kit.cli.main import main
from offset_ledger_kit.publishing.topics import create_topic
from tests.fixtures.servers import Servers
from tests.fixtures.staged import ME

PIPELINE = """
pipeline: {name}
source: {{connection: kafka_default, topics: [{topics}]}}
record: {{key: {{id: text}}, publish_at: $.at, columns: {{n: integer}}}}
target: {{connection: postgres_default, table: public.orders, bookkeeping: {bookkeeping}}}
quality: {{max_quarantined_share: 1.0}}
stage: {{engine: process}}
"""
Row = tuple[str, int, int, str]
NAMED = (
    "SELECT table_name, column_name FROM information_schema.columns JOIN information_schema.tables"
    " USING (table_schema, table_name) WHERE table_schema = 'offset_ledger' AND table_type = 'BASE TABLE'"
    " AND column_name IN ('pipeline', 'file') AND is_generated = 'NEVER'"
)


@dataclass
class Bench:
    """Topics, the folder of the pipeline files, and every record that was acknowledged."""

    servers: Servers
    session: Session
    topics: tuple[str, ...]
    capsys: pytest.CaptureFixture[str]
    bookkeeping: str = "columns"
    sent: set[Row] = field(default_factory=set)
    number: int = 0

    def write(self, name: str) -> None:
        """The file of the only pipeline, with another name from now on."""
        path = Path("dags/pipelines/orders.yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        text = PIPELINE.format(name=name, topics=", ".join(self.topics), bookkeeping=self.bookkeeping)
        if len(self.topics) == 1:
            text = text.replace(f"topics: [{self.topics[0]}]", f"topic: {self.topics[0]}")
        path.write_text(text)

    def send(self, records: int = 6) -> None:
        """So many records of new ids in each topic."""
        for topic in self.topics:
            ids = [f"{topic}-{self.number + n}" for n in range(records)]
            self.number += records
            values = [json.dumps({"id": each, "at": "2026-01-31T12:00:00Z", "n": 1}).encode() for each in ids]
            publish(
                [Record(each.encode(), value) for each, value in zip(ids, values, strict=True)],
                dict(self.servers.kafka.extra),
                topic,
                on_ack=lambda r, p, o, topic=topic: self.sent.add((topic, p, o, json.loads(r.value or b"")["id"])),
            )

    def run(self, *words: str, code: int = 0) -> str:
        self.capsys.readouterr()
        assert main([*words]) == code
        printed = self.capsys.readouterr()
        return f"{printed.out}{printed.err}".strip()

    def table(self) -> list[Row]:
        """Topic, partition, offset and id of each row."""
        topic = "_topic" if len(self.topics) > 1 else f"'{self.topics[0]}'"
        name = {"columns": "public.orders", "beside": f"offset_ledger_rows.{self.file}"}[self.bookkeeping]
        return sorted(tuple(row) for row in rows(self.session, f"SELECT {topic}, _partition, _offset, id FROM {name}"))

    @property
    def file(self) -> str:
        return parse_named("dags/pipelines/orders.yaml").name

    def check(self) -> None:
        """Hold that each acknowledged record is one row, by its coordinates and id, and that every check agrees."""
        assert self.table() == sorted(self.sent)
        assert {row[0] for row in rows(self.session, "SELECT id FROM public.orders")} == {row[3] for row in self.sent}
        for topic in self.topics:
            pipeline = parse_named(f"{self.file}@{topic}" if len(self.topics) > 1 else self.file)
            assert verify(pipeline)[0] == []
            compared = compare_with_topic(pipeline)
            assert (compared.violations, compared.notes) == ((), ())

    def execute(self, statement: str) -> None:
        with transaction(self.session) as cursor:
            cursor.execute(statement)

    def renamings(self) -> list[tuple[Any, ...]]:
        query = "SELECT former, name, target, why FROM offset_ledger.renaming ORDER BY renaming_id"
        return [tuple(row) for row in rows(self.session, query)]

    def names(self) -> set[str]:
        """The pipeline files that any row of the ledger names."""
        return {
            row[0]
            for table, column in rows(self.session, NAMED)
            for row in rows(self.session, f"SELECT DISTINCT split_part({column}, '@', 1) FROM offset_ledger.{table}")
        }


@pytest.fixture
def bench(
    servers: Servers,
    topic_name: Callable[[], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Bench]:
    monkeypatch.chdir(tmp_path)
    topic = topic_name()
    create_topic(dict(servers.kafka.extra), topic, 2, 1, {"retention.ms": "-1"})
    with connect(servers.postgres) as session:
        yield Bench(servers, session, (topic,), capsys)


@pytest.mark.parametrize("case", ["one topic", "two topics", "beside"])
def test_the_file_with_the_new_name_continues_at_the_next_offset(
    case: str, bench: Bench, topic_name: Callable[[], str]
) -> None:
    if case == "two topics":
        bench.topics += (topic_name(),)
        create_topic(dict(bench.servers.kafka.extra), bench.topics[1], 2, 1, {"retention.ms": "-1"})
    if case == "beside":
        bench.bookkeeping = "beside"
        bench.execute("CREATE TABLE public.orders (id text PRIMARY KEY, n integer)")
    bench.write("orders")
    bench.send()
    bench.run("ingest", "orders")
    bench.execute(
        "INSERT INTO offset_ledger.decision (pipeline, kind, topic_id, question, details, answer, who, answered_at)"
        " SELECT pipeline, 'lost_range', topic_id, '?', '{}', 'approve', 'test', now() FROM offset_ledger.pipeline;"
        "INSERT INTO offset_ledger.notification (pipeline, cause, key, notifier, subject, body, link)"
        " SELECT name, 'run_failed', '', 'mail', '', '', '' FROM (VALUES ('orders'), ('shop_orders')) AS of (name)"
    )
    bench.send()
    orders = parse_named("orders" if len(bench.topics) == 1 else f"orders@{bench.topics[0]}")
    batch = plan(orders, ME).batch
    assert batch is not None
    assert bench.run("rename", "orders", "shop_orders", "--why", "one prefix", code=1) == (
        f"offset-ledger: StateConflict: batch {batch.batch_id} of {orders.name} is open; let its run commit it, or run "
        f"offset-ledger batch abandon {batch.batch_id} --why ..."
    )
    decide(bench.session, batch.batch_id, State.ABANDONED, ME, "to rename it")

    bench.write("shop_orders")
    told = bench.run("ingest", "shop_orders", code=1)
    assert "is filled by pipeline orders" in told
    assert (
        "run offset-ledger rename orders shop_orders --why ...; to give it up, run offset-ledger forget orders" in told
    )
    assert bench.run("rename", "orders", "shop_orders", "--why", "one prefix") == (
        "pipeline orders is called shop_orders now; write pipeline: shop_orders in its file before its next run"
    )
    assert bench.names() == {"shop_orders"}
    assert bench.renamings() == [("orders", "shop_orders", "public.orders", "one prefix")]
    bench.run("ingest", "shop_orders")
    bench.check()
    bench.send()
    bench.run("ingest", "shop_orders")
    bench.check()

    bench.write("orders")  # nothing continues under the old name
    assert "is filled by pipeline shop_orders" in bench.run("ingest", "orders", code=1)


def test_a_plan_that_waits_for_a_rename_loads_nothing(bench: Bench) -> None:
    bench.write("orders")
    bench.send()
    bench.run("ingest", "orders")
    bench.send()
    with connect(bench.servers.postgres) as other, ThreadPoolExecutor(1) as beside:
        with transaction(other) as cursor:
            pipelines.rename(cursor, pipelines.lock_file(cursor, "orders"), "orders", "shop_orders", ME, "one prefix")
            waiting = beside.submit(plan, parse_named("orders"), ME)
            query = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            while not waiting.done() and not rows(bench.session, query):
                pass
        with pytest.raises(TransientError, match="pipeline orders was renamed or forgotten while this run waited"):
            waiting.result(300)
    assert bench.names() == {"shop_orders"}
    bench.write("shop_orders")
    bench.run("ingest", "shop_orders")
    bench.check()


def test_every_table_with_the_name_of_a_pipeline_is_renamed(bench: Bench) -> None:
    named = {row[0] for row in rows(bench.session, NAMED)}
    assert named == set(re.findall(r"UPDATE offset_ledger\.(\w+) SET", named_sql("renaming/rename")))


def test_history_changes_in_nothing_but_the_name(bench: Bench) -> None:
    bench.write("orders")
    bench.send()
    bench.run("ingest", "orders")
    for table in ("batch SET changed_why = 'x'", "batch_range SET inserted = 0, gap = inserted, gap_reason = 'x'"):
        with pytest.raises(pg.CheckViolation, match="changes in nothing else"):
            bench.execute(f"UPDATE offset_ledger.{table}, pipeline = 'x'")
    bench.check()


def test_dead_letters_keep_the_name_that_they_were_refused_under(bench: Bench, topic_name: Callable[[], str]) -> None:
    letters = topic_name()
    create_topic(dict(bench.servers.kafka.extra), letters, 1, 1)
    bench.write("orders")
    path = Path("dags/pipelines/orders.yaml")
    path.write_text(path.read_text().replace("1.0}", f"1.0, dead_letter_topic: {letters}}}"))
    publish([Record(b"k", b"{")], dict(bench.servers.kafka.extra), bench.topics[0])
    bench.run("ingest", "orders")
    bench.execute("UPDATE offset_ledger.dead_letter SET delivered_at = NULL, at_partition = NULL, at_offset = NULL")
    assert bench.run("rename", "orders", "shop_orders", "--why", "w", code=1) == (
        "offset-ledger: StateConflict: 1 dead letter of orders would be delivered under another name; first run "
        "offset-ledger quarantine deliver orders"
    )


def test_names_that_cannot_be_renamed(bench: Bench) -> None:
    bench.write("orders")
    bench.send()
    bench.run("ingest", "orders")
    assert "the ledger of this connection has no pipeline 'other'; it has orders" in bench.run(
        "rename", "other", "new", "--why", "w", code=1
    )
    assert "'orders~1' is no pipeline name; write at most 63 of" in bench.run(
        "rename", "orders", "orders~1", "--why", "w", code=1
    )
    assert "the ledger has pipeline orders already" in bench.run("rename", "orders", "orders", "--why", "w", code=1)


@pytest.mark.parametrize("bookkeeping", ["columns", "beside"])
def test_a_forgotten_name_and_table_begin_anew_and_the_history_stays(bookkeeping: str, bench: Bench) -> None:
    bench.bookkeeping = bookkeeping
    if bookkeeping == "beside":
        bench.execute("CREATE TABLE public.orders (id text PRIMARY KEY, n integer)")
    bench.write("orders")
    bench.send()
    publish([Record(b"k", b"{"), Record(b"k", b"[")], dict(bench.servers.kafka.extra), bench.topics[0])
    bench.run("ingest", "orders")
    bench.execute("INSERT INTO offset_ledger.subscribed_topic (file, topic, later) VALUES ('orders', 'x', false)")
    (first,) = rows(bench.session, 'SELECT partition, "offset" FROM offset_ledger.quarantine ORDER BY 2 LIMIT 1')
    dismiss(parse_named("orders"), Selection(first[0], (first[1],)), ME, "never")

    def forget(*more: str, code: int = 1) -> str:
        return bench.run("forget", "orders", "--why", "a trial", *more, code=code)

    assert forget() == (
        "offset-ledger: ConfigurationError: dags/pipelines/orders.yaml is still there, so the next run of orders would "
        "begin again at source.start; remove the file first, or change its target.table if that is what you want"
    )
    path = Path("dags/pipelines/orders.yaml")
    file = path.read_text()
    path.unlink()
    if bookkeeping == "columns":
        assert forget() == (
            "offset-ledger: StateConflict: table public.orders still has rows of orders, which no batch of another "
            "pipeline could account for; drop or empty the table first, or rename it (ALTER TABLE ... RENAME) to keep "
            "them"
        )
        bench.execute("ALTER TABLE public.orders RENAME TO kept")
    assert forget() == (
        "offset-ledger: StateConflict: 1 record of orders would stay in quarantine for ever; retry or dismiss them "
        "first, or give them up with --with-quarantine"
    )
    batches = rows(bench.session, "SELECT batch_id, state FROM offset_ledger.batch ORDER BY 1")
    told = json.loads(forget("--with-quarantine", "--json", code=0))
    assert told == {"pipeline": "orders", "kept_as": "orders~1"}
    assert bench.names() == {"orders~1"}
    assert bench.run("status") == "no pipelines yet"
    assert bench.renamings() == [("orders", None, "public.orders", "a trial")]
    assert rows(bench.session, "SELECT batch_id, state FROM offset_ledger.batch ORDER BY 1") == batches
    assert "of orders~1" in bench.run("batch", "show", str(batches[0][0]))
    for refused in ("orders", "orders~1"):
        assert f"has no pipeline '{refused}'; it has none" in bench.run("forget", refused, "--why", "again", code=1)

    path.write_text(file.replace("pipeline: orders", "pipeline: others"))
    bench.run("ingest", "others")  # the table, under another name
    bench.check()
    path.unlink()
    if bookkeeping == "columns":
        bench.execute("DROP TABLE public.orders")
    bench.run("forget", "others", "--why", "a trial", "--with-quarantine")
    path.write_text(file)
    bench.run("ingest", "orders")  # the name, from source.start
    bench.check()
    assert bench.names() == {"orders", "orders~1", "others~2"}
    quarantined = rows(bench.session, "SELECT pipeline, count(*) FROM offset_ledger.quarantine GROUP BY 1 ORDER BY 1")
    assert [tuple(row) for row in quarantined] == [("orders", 2), ("orders~1", 2), ("others~2", 2)]


def test_a_file_with_another_table_stays_when_its_name_is_forgotten(bench: Bench) -> None:
    bench.write("orders")
    bench.send()
    bench.run("ingest", "orders")
    path = Path("dags/pipelines/orders.yaml")
    path.write_text(path.read_text().replace("public.orders", "public.newer"))
    bench.execute("ALTER TABLE public.orders RENAME TO kept")
    bench.run("forget", "orders", "--why", "other types")
    bench.run("ingest", "orders")
    places = sorted(tuple(row) for row in rows(bench.session, "SELECT _partition, _offset, id FROM public.newer"))
    assert places == sorted(row[1:] for row in bench.sent)
