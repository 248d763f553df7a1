"""How many calls lie between a step and its first COPY, and how many sessions with Postgres a run opens."""

from __future__ import annotations

import json
import re
import time
import traceback
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any

import psycopg2
import pytest

import offset_ledger
from offset_ledger.errors import SparkFailed
from offset_ledger.model.batch import Origin
from offset_ledger.outside.connections import get_connection
from offset_ledger.outside.producer.record import Record
from offset_ledger.postgres.ledger.database import Cursor, rows
from offset_ledger.steps.plan.step import plan
from offset_ledger.steps.run.ingest import ingest
from offset_ledger.steps.stage.claim import claim
from offset_ledger.steps.stage.step import stage
from tests.dags.fresh import answer_of
from tests.fixtures.engines import by_spark
from tests.fixtures.suites import in_set, write_suite
from tests.fixtures.topic_bench import TopicBench, quiet

CALLS, FILES, SESSIONS = 12, 6, 6
ME = Origin("test")
PACKAGE = Path(offset_ledger.__file__).parent
PIPELINE = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}}}
record: {{event_id: $.id, publish_at: kafka_timestamp, columns: {{state: text}}}}
target: {{connection: postgres_default, table: public.orders}}
quality: {{suite: orders, max_quarantined_share: 1.0}}
stage: {{engine: {engine}}}
"""


class Bench(TopicBench):
    """A topic of two partitions, and a pipeline with a suite."""

    TEMPLATE = PIPELINE
    PARTITIONS = 2
    DEFAULTS = MappingProxyType({"engine": "process"})


@pytest.fixture
def bench(bench: Bench) -> Bench:
    write_suite(bench.folder, in_set("quarantine", "state", "new"))
    values = (json.dumps({"id": f"{n}", "state": state}).encode() for n, state in enumerate(("new", "old")))
    bench.publish(*(Record(b"%d" % n, value, (), 1_767_268_800_000, n) for n, value in enumerate(values)))
    return bench


class CopiedError(Exception):
    """Raised instead of the first COPY."""


def raise_copied(*_: object) -> None:
    raise CopiedError


def calls_in(trace: TracebackType | None) -> list[str]:
    """The files of the package, one for each call of it in the traceback."""
    files = (Path(frame.filename) for frame in traceback.extract_tb(trace))
    return [str(file.relative_to(PACKAGE)) for file in files if file.is_relative_to(PACKAGE)]


def check_short(calls: list[str]) -> None:
    assert calls[-1] == "postgres/ledger/staging.py"
    assert len(calls) <= CALLS, calls
    assert len(set(calls)) <= FILES, calls


def test_ingest_reaches_the_first_copy_in_twelve_calls(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cursor, "copy_expert", raise_copied, raising=False)
    with pytest.raises(CopiedError) as raised:
        next(ingest(bench.pipeline, ME, until_drained=False, say=quiet))
    check_short(calls_in(raised.tb))


TASK = """
import json, sys
from offset_ledger.interfaces.airflow import operators
from offset_ledger.postgres.ledger.database import Cursor
from tests.integration.steps.stage.test_short_path import CopiedError, calls_in, raise_copied

Cursor.copy_expert = raise_copied
operators.batch_id_of = lambda _: int(sys.argv[2])
try:
    operators.StageOperator(task_id="stage", pipeline_file=sys.argv[1]).execute({"ti": None})
except CopiedError as error:
    print(json.dumps(calls_in(error.__traceback__.tb_next)))
"""


def test_the_task_stage_reaches_the_first_copy_in_twelve_calls(bench: Bench, tmp_path: Path) -> None:
    planned = plan(bench.pipeline, ME).batch
    assert planned is not None
    known = {
        f"AIRFLOW_CONN_{name.upper()}": get_connection(name).to_json() for name in ("kafka_default", "postgres_default")
    }
    calls = answer_of(TASK, tmp_path / "home", str(bench.path), str(planned.batch_id), **known)
    assert calls[0] == "interfaces/airflow/operators.py"
    check_short(calls)


def test_a_job_of_spark_reaches_the_first_copy_in_twelve_calls(
    bench: Bench, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the driver, whose ``main`` calls ``stage``, and those of the task, which its failure names."""
    planned = plan(bench.pipeline, ME).batch
    assert planned is not None

    def claim_other_columns(*given: Any) -> Any:
        tables = claim(*given)
        with given[0], given[0].cursor() as cursor:
            cursor.execute(f"ALTER TABLE offset_ledger_staging.{tables.rows} RENAME state TO other")
        return tables

    monkeypatch.setattr("offset_ledger.steps.stage.step.claim", claim_other_columns)
    with pytest.raises(SparkFailed) as raised:
        stage(by_spark(spark), bench.pipeline, planned.batch_id, ME)
    in_driver = ["stage/submitted/stage_batch.py", *calls_in(raised.tb)]
    in_task = re.findall(r'File ".*?/offset_ledger/([\w/]+\.py)", line', str(raised.value.__cause__))
    assert in_driver[-1] == in_task[0] == "steps/stage/readers.py"
    check_short(in_driver + in_task)


def opened(session: Any) -> int:
    """The sessions that the server counts for this database; one counts when it has ended."""
    ((count,),) = rows(session, "SELECT sessions FROM pg_stat_database WHERE datname = current_database()")
    return int(count)


def test_a_run_opens_no_session_that_a_step_before_has_open(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """One for the plan, one from the claim to the commit, and one for what follows, besides those of the slices.

    Great Expectations has two of its own, one for each of its engines: its rows are a temporary view, in transactions
    that may only read. Only errors open more: whether a newer claim has ended a session, and what became of a COMMIT
    whose answer was lost, can only be asked in a new one.

    In a DAG run stage, validate and commit are processes, each with one session. Its task plan has one more: the
    transaction that lets one run plan at a time.
    """
    names: list[str] = []
    connect = psycopg2.connect

    def counted(*given: Any, **more: Any) -> Any:
        names.append(more["application_name"])
        return connect(*given, **more)

    before = opened(bench.session)
    monkeypatch.setattr(psycopg2, "connect", counted)
    (done,) = ingest(bench.pipeline, ME, until_drained=False, say=quiet)
    monkeypatch.undo()
    slices = [name for name in names if name.endswith(" slices")]
    assert (done.committed.total.total, len(slices)) == (2, 2)
    assert len(names) - len(slices) <= SESSIONS, names
    deadline = time.monotonic() + 20
    while opened(bench.session) < before + len(names) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert opened(bench.session) == before + len(names)
