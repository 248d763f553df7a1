"""examples/ledger.ipynb and the examples of docs/api.md, in an interpreter of their own, on a pipeline with batches."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from offset_ledger.outside.connections import environment_name
from offset_ledger.outside.producer.record import Record
from tests.fixtures.topic_bench import TopicBench
from tests.paths import ROOT

NOTEBOOK = ROOT / "examples/ledger.ipynb"
# As Jupyter does it, cell by cell, showing the last expression of each. nbclient with a kernel would be 25 packages and
# 64 MB in the lock of all who install a checkout.
_RUN = """
import ast, json, sys
names, shown = {}, {}
for cell in json.load(open(sys.argv[1]))["cells"]:
    if cell["cell_type"] == "code":
        *body, last = ast.parse("".join(cell["source"])).body
        rest = [last] if not isinstance(last, ast.Expr) else []
        exec(compile(ast.Module([*body, *rest], []), cell["id"], "exec"), names)
        value = eval(compile(ast.Expression(last.value), cell["id"], "eval"), names) if not rest else None
        if hasattr(value, "to_dict") and hasattr(value, "mark_bar"):
            (values,) = value.to_dict()["datasets"].values()  # validates the chart
            shown[cell["id"]] = values
        elif value is not None:
            shown[cell["id"]] = json.loads(value.to_json(orient="records", default_handler=str))
print(json.dumps(shown))
"""


class Bench(TopicBench):
    TEMPLATE = """
pipeline: flights
source: {{topic: {topic}}}
record: {{event_id: $.id, publish_at: kafka_timestamp, columns: {{amount: "numeric(8,2)"}}}}
target: {{table: flights}}
quality: {{max_quarantined_share: 1}}
"""
    PARTITIONS = 2

    @property
    def path(self) -> Path:
        path = self.folder / "dags/pipelines/flights.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.TEMPLATE.format(topic=self.topic))
        return path

    def run(self, program: str, *arguments: str) -> str:
        """What a program prints that runs in the folder of the pipeline files."""
        connections = {
            environment_name(each.conn_id): each.to_json() for each in (self.servers.kafka, self.servers.postgres)
        }
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program, *arguments],
            cwd=self.folder,
            env={**os.environ, **connections},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def flight(event_id: str, amount: str) -> Record:
    return Record(b"k", f'{{"id": "{event_id}", "amount": {amount}}}'.encode(), partition=0)


def test_the_notebook_shows_batches_lag_quarantine_and_what_comes(bench: Bench) -> None:
    bench.publish(flight("a", "1"), flight("b", "7.125"))
    bench.ingest()
    bench.publish(flight("c", "2"), flight("d", '"x"'), flight("a", "3"))
    shown: dict[str, Any] = json.loads(bench.run(_RUN, str(NOTEBOOK)).splitlines()[-1])
    assert [(each["state"], each["offsets"]) for each in shown["batches"]] == [("committed", 2)]
    counted = {each["disposition"]: each["records"] for each in shown["dispositions"] if each["records"]}
    assert counted == {"inserted": 1, "quarantined": 1}
    assert shown["lag"] == [{"partition": 0, "lag": 3}, {"partition": 1, "lag": 0}]
    assert [(each["partition"], each["offset"]) for each in shown["quarantine"]] == [(0, 1)]
    assert shown["reasons"] == [{"path": "$.amount", "code": "precision"}]
    assert [each["event_id"] for each in shown["preview"]] == ["c", "a"]
    assert [each["_offset"] for each in shown["coming"]] == [3]


def test_the_notebook_runs_before_the_first_batch(bench: Bench) -> None:
    assert bench.path.exists()
    shown: dict[str, Any] = json.loads(bench.run(_RUN, str(NOTEBOOK)).splitlines()[-1])
    assert (shown["batches"], shown["quarantine"], shown["reasons"]) == ([], [], [])


def test_the_notebook_has_no_output() -> None:
    cells = [each for each in json.loads(NOTEBOOK.read_text())["cells"] if each["cell_type"] == "code"]
    assert {(each["execution_count"], *each["outputs"]) for each in cells} == {(None,)}


def test_the_examples_of_the_page_run_one_after_the_other(bench: Bench) -> None:
    bench.publish(flight("a", "1"), flight("b", "7.125"))
    assert bench.path.exists()
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/api.md").read_text(), re.M | re.S)
    said = bench.run("\n".join(blocks))
    assert re.search(r"^0 .*\bcommitted +2 +1 +1$", said, re.M), said
    assert re.search(r"^precision +1$", said, re.M), said
