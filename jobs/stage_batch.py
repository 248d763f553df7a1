"""spark-submit entry point: stage one batch. Arguments: pipeline file, batch id, and where to write a failure."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from contextlib import nullcontext
from pathlib import Path

from pyspark.sql import SparkSession

from offset_ledger.config.parse import parse_pipeline
from offset_ledger.errors import OffsetLedgerError
from offset_ledger.ledger.origin import current_origin
from offset_ledger.stage.scratch import in_use
from offset_ledger.stage.step import stage


def main() -> int:
    """Exit 0 when the batch is staged (or was committed already), else the exit code of the error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pipeline", type=Path)
    parser.add_argument("batch_id", type=int)
    parser.add_argument("--failure", type=Path, help="a file for the error, as JSON: its class and its line")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stdout)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    logging.getLogger("kafka").setLevel(logging.WARNING)
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")  # its Kafka consumers tell every fetch: thousands of lines a batch
    place = in_use(arguments.failure.parent) if arguments.failure else nullcontext()
    try:
        with place, spark:  # it ends before the error is said, which is the last line then
            staged = stage(spark, parse_pipeline(arguments.pipeline), arguments.batch_id, current_origin())
    except OffsetLedgerError as error:
        if arguments.failure:
            arguments.failure.write_text(json.dumps({"error": type(error).__name__, "message": str(error)}))
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return error.exit_code
    print(f"staged {staged.attempt}: {staged.counts}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
