"""The files of this demo: schemas, and a project folder for Airflow with a pipeline file for each topic."""

import os
from importlib.resources import files
from pathlib import Path

AVRO, PROTOBUF, JSON_SCHEMA = "flights_avro", "flights_protobuf", "flights_json_schema"
PIPELINES = (AVRO, PROTOBUF, JSON_SCHEMA)
_DAGS = '''"""An Airflow ingest DAG for each pipeline file of the demo."""

from pathlib import Path

from offset_ledger import ingest_dags

globals().update(ingest_dags(Path(__file__).parent / "pipelines"))
'''


def text(name: str) -> str:
    """The text of one file."""
    return files("offset_ledger.demo.formats").joinpath("files", name).read_text()


def write_dags(folder: Path) -> None:
    """The DAG file and the pipelines, Avro's as it begins."""
    (folder / "pipelines").mkdir(parents=True)
    for name, file in ((AVRO, f"{AVRO}.1"), (PROTOBUF, PROTOBUF), (JSON_SCHEMA, JSON_SCHEMA)):
        (folder / "pipelines" / f"{name}.yaml").write_text(text(f"{file}.yaml"))
    (folder / "formats.py").write_text(_DAGS)


def change_avro(folder: Path, version: int) -> None:
    """Bring the pipeline of Avro to this version, and let Airflow parse it at once."""
    draft = folder / "pipelines" / "draft"
    draft.write_text(text(f"{AVRO}.{version}.yaml"))
    draft.replace(folder / "pipelines" / f"{AVRO}.yaml")
    os.utime(folder / "formats.py")
