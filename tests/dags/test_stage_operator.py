"""What the stage task hands to spark-submit, in a process of its own as Airflow's are."""

from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path

import offset_ledger
from offset_ledger.connections import Connection
from tests.dags.fresh import answer_of
from tests.dags.test_airflow_parts import PIPELINE

_SHIPPED = """
import json, sys, zipfile
from pathlib import Path
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from offset_ledger.airflow import operators
from offset_ledger.stage import step as stage

shipped = []

def submit(self, context):
    with zipfile.ZipFile(self.py_files) as archive:
        code = {name: archive.read(name).decode("latin-1") for name in archive.namelist()}
    folder = Path(self.py_files).parent
    shipped.extend([code, oct(folder.stat().st_mode & 0o777), str(folder)])

SparkSubmitOperator.execute = submit
operators.batch_id_of = lambda ti: 1
stage.stage_without_spark = lambda pipeline, batch_id, origin: None
operator = operators.StageOperator(task_id="stage", pipeline_file=sys.argv[1], connections=[], conn_id="spark_default")
operator.execute({"ti": None})
print(json.dumps([*shipped, Path(shipped[2]).exists()]))
"""


def package() -> dict[str, bytes]:
    root = Path(offset_ledger.__file__).parent
    files = sorted(p for p in root.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    return {str(file.relative_to(root)): file.read_bytes() for file in files}


def plant(folder: Path) -> None:
    """Whoever has the release can say what the package of it was called."""
    digest = hashlib.sha256()
    for name, content in package().items():
        digest.update(name.encode() + b"\0" + content)
    with zipfile.ZipFile(folder / f"offset_ledger-{digest.hexdigest()[:16]}.zip", "w") as archive:
        archive.writestr("offset_ledger/__init__.py", "planted = True")


def test_executors_get_this_package_and_nothing_that_lay_in_the_shared_folder(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    plant(shared)
    file = tmp_path / "orders.yaml"
    file.write_text(PIPELINE.format(topic="orders"))
    cluster = Connection("spark_default", "spark", host="yarn").to_json()
    known = {
        **os.environ,
        "TMPDIR": str(shared),
        "AIRFLOW_CONN_SPARK_DEFAULT": cluster,
        "OFFSET_LEDGER_SPARK_JARS": "none",
    }
    code, mode, folder, left = answer_of(_SHIPPED, tmp_path, str(file), **known)
    expected = {f"offset_ledger/{name}": content.decode("latin-1") for name, content in package().items()}
    assert code == expected
    assert (mode, Path(folder).parent, left) == ("0o700", shared, False)
