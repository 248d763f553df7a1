"""A table beside its bookkeeping that people change: verify says what is wrong, and accept table goes on with it."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

import pytest

from offset_ledger.outside.producer.record import Record
from offset_ledger.postgres.ledger.database import rows
from offset_ledger_kit.cli.main import main
from tests.fixtures.topic_bench import TopicBench

PIPELINE = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}}}
record:
  key: {{id: integer}}
  publish_at: $.at
  delete_when: {{path: $.op, equals: d}}
  columns: {{day: date, state: text{more}}}
target: {{connection: postgres_default, table: public.orders, bookkeeping: {bookkeeping}, evolve: add_columns}}
"""
JANUARY, FEBRUARY = "2026-01-15", "2026-02-15"


class Bench(TopicBench):
    """A pipeline over a topic, with a table that is partitioned by a day of its records."""

    TEMPLATE = PIPELINE
    DEFAULTS = MappingProxyType({"more": "", "bookkeeping": "beside"})
    capsys: pytest.CaptureFixture[str]

    def send(self, second: int, **values: Any) -> None:
        """One record; its newest order is by the second."""
        value = {"at": f"2026-03-01T12:00:{second:02}Z", "op": "c", "state": "new", "day": JANUARY, **values}
        self.publish(Record(b"k", json.dumps(value).encode(), partition=0))

    def run(self, line: str, *, fails: bool = False) -> str:
        """What a verb prints; it ends well unless it ``fails``."""
        self.capsys.readouterr()
        verb, *options = line.split()
        words = (
            [verb, *options[:1], str(self.path), *options[1:]] if verb == "accept" else [verb, str(self.path), *options]
        )
        code, printed = main(words), self.capsys.readouterr()
        assert (code != 0) is fails, printed
        return f"{printed.out}{printed.err}"

    def table(self) -> list[tuple[Any, ...]]:
        return sorted(self.rows("id, state"))


@pytest.fixture
def bench(bench: Bench, capsys: pytest.CaptureFixture[str]) -> Bench:
    bench.capsys = capsys
    bench.execute(
        "CREATE TABLE public.orders (id integer NOT NULL, day date NOT NULL, state text, PRIMARY KEY (id, day))"
        " PARTITION BY RANGE (day)"
    )
    for name, first, end in (("january", "2026-01-01", "2026-02-01"), ("february", "2026-02-01", "2026-03-01")):
        bench.execute(f"CREATE TABLE public.{name} PARTITION OF public.orders FOR VALUES FROM ('{first}') TO ('{end}')")
    return bench


WHY = "--why retired"


def test_a_table_whose_partition_was_retired_is_accepted_as_it_is(bench: Bench) -> None:
    bench.send(1, id=1)
    bench.send(2, id=2, day=FEBRUARY)
    bench.send(3, id=3)
    bench.send(4, id=3, op="d")
    bench.run("ingest")
    bench.execute("ALTER TABLE public.orders DETACH PARTITION public.january")
    assert "event 1 of partition 0 offset 0 is not in the table" in bench.run("verify", fails=True)
    assert "accepted public.orders with 2 event ids" in bench.run(f"accept table {WHY}")  # 2, and the marker of 3
    bench.run("verify")
    bench.send(5, id=1, state="again", day=FEBRUARY)
    bench.send(2, id=3, state="older", day=FEBRUARY)
    bench.run("ingest")
    assert bench.table() == [(1, "again"), (2, "new")]
    bench.run("verify")


def test_rows_that_people_have_removed_or_put_back_are_accepted(bench: Bench) -> None:
    for second, more in enumerate([{"id": 1}, {"id": 2}, {"id": 3}, {"id": 3, "op": "d"}]):
        bench.send(second, **more)
    bench.run("ingest")
    bench.execute(f"DELETE FROM public.orders WHERE id = 1; INSERT INTO public.orders VALUES (3, '{JANUARY}', 'back')")
    said = bench.run("verify", fails=True)
    assert "event 1 of partition 0 offset 0 is not in the table" in said
    assert "event 3 was deleted by partition 0 offset 3, and is in the table" in said
    bench.run(f"accept table {WHY}")
    bench.run("verify")
    assert bench.table() == [(2, "new"), (3, "back")]
    bench.send(9, id=3, state="newer")
    bench.run("ingest")
    assert bench.table() == [(2, "new"), (3, "newer")]
    bench.run("verify")


def test_a_row_that_stands_twice_stays_a_violation(bench: Bench) -> None:
    bench.send(1, id=1)
    bench.run("ingest")
    bench.execute(f"INSERT INTO public.orders VALUES (1, '{FEBRUARY}', 'twice')")
    bench.run(f"accept table {WHY}")
    assert "event 1 stands 2 times in the table" in bench.run("verify", fails=True)


def test_between_the_edit_of_the_file_and_the_batch_that_adds_its_column_verify_compares_the_others(
    bench: Bench,
) -> None:
    bench.send(1, id=1)
    bench.run("ingest")
    bench.settings["more"] = ", note: {type: text, nullable: true}"
    for line in ("verify", "verify --against-topic"):
        bench.run(line)
    bench.execute("UPDATE public.orders SET state = 'other'")
    bench.run("verify")
    assert "state is other in the table and new in the topic" in bench.run("verify --against-topic")
    bench.send(2, id=1, note="a note")
    bench.run("ingest")
    for line in ("verify", "verify --against-topic"):
        bench.run(line)
    assert rows(bench.session, "SELECT note FROM public.orders") == [["a note"]]


def test_bookkeeping_that_was_dropped_is_named_and_made_again_by_accept_table(bench: Bench) -> None:
    bench.send(1, id=1)
    bench.send(2, id=2, day=FEBRUARY)
    bench.run("ingest")
    bench.execute("DROP TABLE offset_ledger_rows.orders")
    bench.send(3, id=1, state="paid")
    for line in ("verify", "verify --against-topic", "ingest", "check"):
        said = bench.run(line, fails=True)
        assert "TargetMismatch: pipeline orders: table offset_ledger_rows.orders, with the order of its commit" in said
        assert "restore it from a backup; or make it again with: offset-ledger accept table orders --why ..." in said
    bench.settings["bookkeeping"] = "columns"
    assert "write target.bookkeeping: columns" not in bench.run("ingest", fails=True)
    bench.settings["bookkeeping"] = "beside"
    assert "accepted public.orders with 0 event ids" in bench.run(f"accept table {WHY}")
    bench.run("verify")
    bench.run("ingest")
    assert bench.table() == [(1, "paid"), (2, "new")]
    bench.run("replay --partition 0 --from-offset 0 --until-offset 3 --why again")
    for line in ("verify", "verify --against-topic"):
        bench.run(line)
    assert bench.table() == [(1, "paid"), (2, "new")]
