"""A schema file goes where the pipeline file goes."""

from __future__ import annotations

from pathlib import Path

from offset_ledger.model.batch import Origin
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.spark.submission import PIPELINE_FILE, Submission, submit_arguments
from offset_ledger.pipeline_file.parse import parse_pipeline

SCHEMA = '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "string"}]}'
PIPELINE = """
pipeline: orders
source: {connection: kafka_default, topic: orders, format: avro, schema: schemas/orders.avsc}
record: {event_id: $.id, publish_at: kafka_timestamp, columns: {}}
target: {connection: postgres_default, table: public.orders}
spark: {deploy_mode: cluster}
"""


def test_a_driver_on_the_cluster_reads_the_pipeline_with_its_schema(tmp_path: Path) -> None:
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "orders.avsc").write_text(SCHEMA)
    (tmp_path / "orders.yaml").write_text(PIPELINE.replace("columns: {}", "columns: {a: {type: text, nullable: true}}"))
    pipeline = parse_pipeline(tmp_path / "orders.yaml")
    folder = tmp_path / "submission"
    folder.mkdir()
    yarn = Connection("spark_default", "spark", "yarn")
    arguments = submit_arguments(folder, yarn, pipeline, Submission.of("1", Origin("test"), "test"))
    elsewhere = tmp_path / "container"
    elsewhere.mkdir()
    for path in map(Path, (arguments.files or "").split(",")):
        (elsewhere / path.name).write_bytes(path.read_bytes())
    there = parse_pipeline(elsewhere / PIPELINE_FILE)
    assert (there.source, there.config_hash) == (pipeline.source, pipeline.config_hash)


def test_staging_gets_the_connection_of_the_registry(tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(
        PIPELINE.replace("schema: schemas/orders.avsc", "registry: registry_default").replace(
            "columns: {}", "columns: {a: text}"
        )
    )
    assert parse_pipeline(path).connections == ("kafka_default", "postgres_default", "registry_default")
