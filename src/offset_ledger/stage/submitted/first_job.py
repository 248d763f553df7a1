"""spark-submit entry point: a job as short as can be that loads what the staging of a batch loads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    import pyarrow as pa


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


if __name__ == "__main__":
    spark = SparkSession.builder.getOrCreate()
    spark.range(10).selectExpr("cast(id AS string) AS value").mapInArrow(_same, "value string").collect()
    spark.stop()
