"""Spark's side of staging: exactly the planned ranges in, one task a slice."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import Connection
from offset_ledger.decoding.headers import HEADERS
from offset_ledger.errors import SparkFailed
from offset_ledger.kafka.connection import spark_kafka_options
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.stage.progress import is_classic
from offset_ledger.stage.same_code import for_same_code
from offset_ledger.stage.slices import RESULT_SCHEMA, SliceTask, write_slice
from offset_ledger.stage.spark_failures import classify

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)


def kafka_options(connection: Connection, pipeline: Pipeline, ranges: Sequence[OffsetRange]) -> dict[str, str]:
    """Options of Spark's Kafka source that read these ranges and nothing else, or fail."""
    topic = pipeline.source.topic
    return {
        # Each partition otherwise idles in long polls: with 8 partitions three quarters of a small batch's read.
        "kafka.fetch.max.wait.ms": "10",
        # After each poll Spark asks for both ends of the log, and its seeks throw away what was fetched and not polled.
        # So a poll takes a whole fetch, which max.partition.fetch.bytes (1 MiB) bounds as it is in the log, compressed.
        "kafka.max.poll.records": "20000",
        **spark_kafka_options(connection),
        "assign": json.dumps({topic: [r.partition for r in ranges]}),
        "startingOffsets": json.dumps({topic: {str(r.partition): r.from_offset for r in ranges}}),
        "endingOffsets": json.dumps({topic: {str(r.partition): r.until_offset for r in ranges}}),
        "kafka.isolation.level": "read_committed",
        "failOnDataLoss": "true",
        "includeHeaders": "true",
        "kafkaConsumer.pollTimeoutMs": "30000",
        "maxRecordsPerPartition": str(pipeline.limits.records_per_slice),
    }


def read_ranges(
    spark: SparkSession, connection: Connection, pipeline: Pipeline, ranges: Sequence[OffsetRange]
) -> DataFrame:
    """The records of the ranges, bytes as they are, headers as :func:`parse_headers` reads them."""
    options = kafka_options(connection, pipeline, ranges)
    # An array of structs costs two thirds of the way into Arrow even where every one is null; text costs nothing there.
    columns = ["key", "value", "partition", "offset", "timestamp", "to_json(headers) AS headers"]
    return spark.read.format("kafka").options(**options).load().selectExpr(*columns)


def run_slices(spark: SparkSession, records: DataFrame, task: SliceTask) -> int:
    """Stage every slice and return how many there were; all of them have committed when this returns.

    Raises:
        LostRange, SparkFailed, SparkUnavailable, Fenced, DatabaseUnavailable: by what made the Spark job fail.
    """

    def on_executor(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        return write_slice(task, context.partitionId(), map(parse_headers, batches))

    # A server outlives releases of the package; other executors belong to this process, or get its code with the job.
    job = on_executor if is_classic(spark) else for_same_code(on_executor)
    try:
        return len(records.mapInArrow(job, RESULT_SCHEMA).collect())
    except (Py4JJavaError, PySparkException) as error:
        known = classify(error)
        log.log(logging.ERROR if type(known) is SparkFailed else logging.DEBUG, "%s", error)
        raise known from error


def parse_headers(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with its headers as Kafka has them, from Spark's JSON: bytes are base64, nulls are absent."""
    place = batch.schema.get_field_index("headers")
    texts = batch.column(place)
    if texts.null_count == len(texts):
        headers = pa.nulls(len(texts), HEADERS)
    else:
        headers = pa.array([None if text is None else _headers(text) for text in texts.to_pylist()], HEADERS)
    return batch.set_column(place, "headers", headers)


def _headers(text: str) -> list[dict[str, str | bytes | None]]:
    values = [(header["key"], header.get("value")) for header in json.loads(text)]
    return [{"key": key, "value": None if value is None else base64.b64decode(value)} for key, value in values]
