"""The entry point of spark-submit, which stages one batch.

Arguments: pipeline file and batch id; how it was submitted, and where to write a failure, if not to the ledger.
"""

import argparse
import json
import logging
import sys
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

from pyspark import SparkFiles
from pyspark.sql import SparkSession

from offset_ledger.errors import OffsetLedgerError, UnexpectedError, error_line, failure_of
from offset_ledger.model.batch import Engine, EngineChoice, current_origin
from offset_ledger.outside.connections import get_connection
from offset_ledger.outside.spark.scratch import in_use
from offset_ledger.outside.spark.submission import Submission
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger import staging
from offset_ledger.postgres.ledger.database import open_ledger_at, transaction
from offset_ledger.postgres.ledger.staging import StageFailure
from offset_ledger.steps.stage.readers import SparkReader
from offset_ledger.steps.stage.step import stage

_SECONDS = 30  # for a failure to reach the ledger


def main() -> int:
    """Exit 0 when the batch is staged (or was committed already), else the exit code of the error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pipeline")
    parser.add_argument("batch_id", type=int)
    parser.add_argument("--topic", help="which topic the batch is of, if the pipeline file reads several")
    parser.add_argument("--submission", help="a file with connections, and for whom the batch is staged")
    parser.add_argument("--failure", type=Path, help="a file for the error, as JSON: its class and its line")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stdout)
    for chatty in ("py4j", "kafka"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    submission = pipeline = None
    place = in_use(arguments.failure.parent) if arguments.failure else nullcontext()
    try:
        with place, spark:  # it ends first, so that the error is the last line
            if arguments.submission:
                submission = Submission.read(_file(arguments.submission))
                submission.enter()
            pipeline = parse_pipeline(_file(arguments.pipeline))
            pipeline = pipeline.of_topic(arguments.topic) if arguments.topic else pipeline
            origin, reason = current_origin(), "spark-submit"
            if submission:
                origin, reason = submission.origin, submission.reason
            reader = SparkReader(spark, EngineChoice(Engine.SPARK, reason))
            staged = stage(reader, pipeline, arguments.batch_id, origin)
    except Exception as error:
        known = error if isinstance(error, OffsetLedgerError) else UnexpectedError(error_line(error))
        failure = StageFailure(**failure_of(known))
        if not arguments.failure:
            if pipeline and submission:
                _record(pipeline, arguments.batch_id, submission, failure)
        elif known is error:  # else the log of the task has it
            arguments.failure.write_text(json.dumps(asdict(failure)))
        if known is not error:
            raise
        print(known.named, file=sys.stderr)
        return known.exit_code
    print(f"staged {staged.attempt}: {staged.counts}")
    return 0


def _file(name: str) -> Path:
    """Return a file of this machine, else one that was shipped with the application."""
    path = Path(name)
    return path if path.exists() else Path(SparkFiles.get(name))


def _record(pipeline: Pipeline, batch_id: int, submission: Submission, failure: StageFailure) -> None:
    """Record the failure in the ledger; if that fails too, the log has both."""
    try:
        database = get_connection(pipeline.target.connection)
        with open_ledger_at(database, timeout=_SECONDS) as session, transaction(session) as cursor:
            staging.record_failure(cursor, submission.submission_id, batch_id, failure)
    except Exception:
        logging.exception("the failure is not recorded in the ledger")


if __name__ == "__main__":
    sys.exit(main())
