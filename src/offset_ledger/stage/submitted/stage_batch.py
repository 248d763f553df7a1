"""spark-submit entry point: stage one batch. Arguments: pipeline file and batch id; how it was submitted, and where to
write a failure, if not to the ledger.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark import SparkFiles
from pyspark.sql import SparkSession

from offset_ledger.config.model import Pipeline
from offset_ledger.config.parse import parse_pipeline
from offset_ledger.connections import get_connection
from offset_ledger.errors import OffsetLedgerError, UnexpectedError, error_line
from offset_ledger.ledger import staging
from offset_ledger.ledger.database import open_ledger_at, transaction
from offset_ledger.ledger.staging import StageFailure
from offset_ledger.model.batch import current_origin
from offset_ledger.model.engine import Engine, EngineChoice
from offset_ledger.stage.scratch import in_use
from offset_ledger.stage.spark_reader import SparkReader
from offset_ledger.stage.step import StagedBatch, stage
from offset_ledger.stage.submission import Submission

_SECONDS = 30  # for a failure to reach the ledger


@dataclass(frozen=True, slots=True)
class Job:
    """One run of this program, with its files located."""

    pipeline: Pipeline
    batch_id: int
    submission: Submission | None

    def run(self, spark: SparkSession) -> StagedBatch:
        """Stage the batch."""
        submitted = self.submission
        origin, reason = (submitted.origin, submitted.reason) if submitted else (current_origin(), "spark-submit")
        reader = SparkReader(spark, EngineChoice(Engine.SPARK, reason))
        return stage(reader, self.pipeline, self.batch_id, origin)

    def record(self, failure: StageFailure) -> None:
        """Record the failure in the ledger; if that fails too, the log has both."""
        assert self.submission
        try:
            with (
                open_ledger_at(get_connection(self.pipeline.target.connection), timeout=_SECONDS) as session,
                transaction(session) as cursor,
            ):
                staging.record_failure(cursor, self.submission.submission_id, self.batch_id, failure)
        except Exception:
            logging.exception("the failure is not recorded in the ledger")


def main() -> int:
    """Exit 0 when the batch is staged (or was committed already), else the exit code of the error."""
    arguments = _parser().parse_args()
    _log_to_stdout()
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    job = None
    place = in_use(arguments.failure.parent) if arguments.failure else nullcontext()
    try:
        with place, spark:  # it ends first, so that the error is the last line
            job = _job(arguments)
            staged = job.run(spark)
    except OffsetLedgerError as error:
        _report(job, arguments.failure, error)
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return error.exit_code
    except Exception as error:
        if not arguments.failure:  # else the log of the task has it
            _report(job, None, UnexpectedError(error_line(error)))
        raise
    print(f"staged {staged.attempt}: {staged.counts}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pipeline")
    parser.add_argument("batch_id", type=int)
    parser.add_argument("--topic", help="which topic the batch is of, if the pipeline file reads several")
    parser.add_argument("--submission", help="a file with connections, and for whom the batch is staged")
    parser.add_argument("--failure", type=Path, help="a file for the error, as JSON: its class and its line")
    return parser


def _job(arguments: argparse.Namespace) -> Job:
    submission = Submission.read(_file(arguments.submission)) if arguments.submission else None
    if submission:
        submission.enter()
    pipeline = parse_pipeline(_file(arguments.pipeline))
    of_topic = pipeline.of_topic(arguments.topic) if arguments.topic else pipeline
    return Job(of_topic, arguments.batch_id, submission)


def _file(name: str) -> Path:
    """A file of this machine, else one that was shipped with the application."""
    path = Path(name)
    return path if path.exists() else Path(SparkFiles.get(name))


def _report(job: Job | None, file: Path | None, error: OffsetLedgerError) -> None:
    failure = StageFailure(type(error).__name__, str(error))
    if file:
        file.write_text(json.dumps(asdict(failure)))
    elif job and job.submission:
        job.record(failure)


def _log_to_stdout() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stdout)
    for chatty in ("py4j", "kafka"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


if __name__ == "__main__":
    sys.exit(main())
