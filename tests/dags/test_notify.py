"""A DAG with ``notify``: the same in every process that parses it, also where a notifier is not installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from offset_ledger.pipeline_file.outline import outline
from offset_ledger.pipeline_file.parse import parse_pipeline
from tests.dags.fresh import answer_of

FILE = """
pipeline: orders
source: {connection: kafka_default, topic: orders}
record: {event_id: $.id, publish_at: $.at, columns: {state: text}}
target: {connection: postgres_default, table: public.orders}
freshness: 1h
notify:
- email: {connection: smtp_default, to: [ada@example.com]}
- webhook: {connection: hooks}
- class: airflow.providers.absent.notifications.Absent
"""

PROGRAM = """
import hashlib, json, logging, sys
from pathlib import Path
said = []
log = logging.getLogger("offset_ledger.interfaces.airflow.callbacks")
log.addFilter(lambda record: said.append(record.getMessage()))
from airflow.serialization.serialized_objects import DagSerialization
from offset_ledger.interfaces.airflow.dags import ingest_dags
(dag,) = ingest_dags(Path(sys.argv[1])).values()
text = json.dumps(DagSerialization.to_dict(dag), sort_keys=True)
kinds = ("on_failure_callback", "on_retry_callback", "on_success_callback", "on_skipped_callback")
called = [[each.func.__name__ for kind in kinds for each in getattr(task, kind)] for task in dag.tasks]
found = {"hash": hashlib.sha256(text.encode()).hexdigest(), "called": called, "said": said}
found["imported"] = [name for name in sys.modules if name.startswith("airflow.providers.http.notifications")]
print(json.dumps({**found, "late": dag.deadline[0].callback.kwargs}))
"""


@pytest.mark.full
def test_every_task_has_the_callbacks_and_parsing_it_again_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "pipelines"
    folder.mkdir()
    (folder / "orders.yaml").write_text(FILE)
    first, second = (answer_of(PROGRAM, tmp_path / "home", str(folder)) for _ in range(2))
    assert first["hash"] == second["hash"]
    assert first["imported"] == []  # the client behind it takes each task a quarter of a second
    assert first["called"] == [["failed", "retried", "on_success", "skipped"]] * 8
    known = outline(parse_pipeline(folder / "orders.yaml"))
    assert first["late"] == {"pipeline": "orders", "seconds": 3600, "known": known}
    assert first["said"] == [
        "pipeline orders: notify needs airflow.providers.absent.notifications.Absent, which is not installed; install "
        f"apache-airflow-providers-absent, or remove the entry from {folder / 'orders.yaml'}"
    ]
