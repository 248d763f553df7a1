"""The stage job with the package coming from its zip alone, as on a cluster whose machines do not have it installed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyspark
import pytest

from offset_ledger.model.batch import Origin
from offset_ledger.outside.producer.publisher import publish
from offset_ledger.outside.producer.record import Record
from offset_ledger.outside.spark.home import SETTINGS
from offset_ledger.outside.spark.submission import package_zip
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.postgres.ledger.database import connect, rows
from offset_ledger.steps.plan.step import plan
from offset_ledger.steps.stage import submitted
from offset_ledger_kit.publishing.topics import create_topic
from tests.fixtures.servers import Servers
from tests.paths import ROOT

pytestmark = pytest.mark.full

JOBS = {"package": Path(submitted.__file__).with_name("stage_batch.py"), "checkout": ROOT / "jobs/stage_batch.py"}
PIPELINE = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}}}
record: {{event_id: $.id, publish_at: $.at, columns: {{state: text}}}}
target: {{connection: postgres_default, table: public.orders}}
"""


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_the_stage_job_runs_with_only_the_zip_on_the_path(
    job: Path, servers: Servers, topic_name: Callable[[], str], tmp_path: Path
) -> None:
    extra, topic = dict(servers.kafka.extra), topic_name()
    create_topic(extra, topic, 1, 1)
    publish([Record(b"a", b'{"id":"a","at":"2026-01-01T12:00:00Z","state":"new"}')], extra, topic)
    path = tmp_path / "orders.yaml"
    path.write_text(PIPELINE.format(topic=topic))
    batch = plan(parse_pipeline(path), Origin("test")).batch
    assert batch is not None
    # Without site, the environment's packages come from PYTHONPATH and the editable install of ours is not seen.
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    libraries = str(Path(pyspark.__file__).parents[1])
    settings = [f"--conf={name}={value}" for name, value in SETTINGS.items()]
    done = subprocess.run(
        [
            *(Path(pyspark.__file__).parent / "bin" / "spark-submit", "--master", "local[1]"),
            *(*settings, "--py-files", str(package_zip(tmp_path)), str(job)),
            *(str(path), str(batch.batch_id)),
        ],
        env={**os.environ, "PYTHONPATH": libraries, "PYSPARK_PYTHON": str(python)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "staged batch 1 epoch 1" in done.stdout
    with connect(servers.postgres) as session:
        assert rows(session, "SELECT state, rows FROM offset_ledger.batch") == [["staged", 1]]
