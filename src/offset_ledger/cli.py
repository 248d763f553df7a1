"""The command line: ``offset-ledger VERB``; every verb has --json and fails with one line and a non-zero exit."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence

from offset_ledger import (
    __version__,
    commands,
    commands_kafka,
    commands_publish,
    commands_quality,
    commands_quarantine,
    commands_requests,
)
from offset_ledger.commands import Outcome
from offset_ledger.errors import OffsetLedgerError, UnexpectedError


def build_parser() -> argparse.ArgumentParser:
    """All verbs with their arguments."""
    parser = argparse.ArgumentParser(
        prog="offset-ledger", description="Exactly-once batch ingestion, Kafka to Postgres."
    )
    parser.add_argument("--version", action="version", version=__version__)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="print the result as one JSON document")
    common.add_argument("-v", "--verbose", action="store_true", help="log every step")

    def verb(name: str, summary: str, run: commands.Command) -> argparse.ArgumentParser:
        made = verbs.add_parser(name, help=summary, description=summary, parents=[common])
        made.set_defaults(run=run)
        return made

    def with_pipeline(made: argparse.ArgumentParser) -> argparse.ArgumentParser:
        made.add_argument(
            "pipeline", metavar="PIPELINE", help="a name under dags/pipelines/, or the path of a YAML file"
        )
        return made

    stack = verb("stack", "start, stop or show the local servers", commands.stack)
    stack.add_argument("action", choices=["up", "down", "status"])
    stack.add_argument("--brokers", type=int, choices=[1, 3], help="Kafka brokers (default: what runs, or one)")
    stack.add_argument("--airflow", action="store_true", help="Airflow too")

    migrate = verb("migrate", "create or upgrade the ledger", commands.migrate)
    migrate.add_argument("--connection", default="postgres_default", help="Airflow connection id (postgres_default)")

    ingest = with_pipeline(verb("ingest", "plan, stage, validate, commit and report, without Airflow", commands.ingest))
    ingest.add_argument("--until-drained", action="store_true", help="go on until nothing is new")
    ingest.add_argument("--dry-run", action="store_true", help="show what would be read, and write nothing")

    replay = with_pipeline(verb("replay", "read offset ranges again; cursors do not move", commands_requests.replay))
    replay.add_argument("--partition", type=int, help="the partition of --from-offset and --until-offset")
    replay.add_argument("--from-offset", type=int, help="first offset")
    replay.add_argument("--until-offset", type=int, help="end, not read itself")
    replay.add_argument("--since", help="first record timestamp, ISO 8601 with zone, instead of offsets")
    replay.add_argument("--until", help="end of the record timestamps, not read itself")
    replay.add_argument("--limit", type=int, help="at most so many offsets")
    replay.add_argument("--dry-run", action="store_true", help="show what would be read, and write nothing")
    replay.add_argument("--why", help="kept with the batch")

    redrive = with_pipeline(
        verb("redrive", "try quarantined records again, with today's decoder and suite", commands_quarantine.redrive)
    )
    redrive.add_argument("--reason", help="only records refused for this reason code; see: quarantine PIPELINE")
    redrive.add_argument("--since", help="only records quarantined since, ISO 8601 with zone")
    redrive.add_argument("--limit", type=int, help="at most so many records (limits.records_per_batch)")
    redrive.add_argument("--why", help="kept with the batch")

    quarantine = with_pipeline(
        verb("quarantine", "the quarantined records by reason, with some coordinates", commands_quarantine.quarantine)
    )
    quarantine.add_argument("--reason", help="only this reason code")
    quarantine.add_argument("--since", help="only records quarantined since, ISO 8601 with zone")
    quarantine.add_argument("--limit", type=int, default=5, help="coordinates shown of each reason (5)")
    quarantine.add_argument("--resolved", action="store_true", help="those that a redrive has resolved instead")

    with_pipeline(
        verb("dead-letters", "deliver the dead letters that wait in the outbox", commands_quarantine.deliver_letters)
    )

    with_pipeline(verb("check", "check a pipeline file", commands.check))
    with_pipeline(verb("status", "cursors, lag and the open batch", commands.status))
    batches = with_pipeline(verb("batches", "the batches with their balance sheets", commands.batches))
    batches.add_argument("--limit", type=int, default=20, help="newest first (20)")
    verify = with_pipeline(verb("verify", "check every invariant of the ledger", commands.verify))
    verify.add_argument("--deep", action="store_true", help="read the gaps again and name the cause of each offset")

    report = verb("report", "one day of every pipeline, as a page and as figures", commands_quality.report)
    report.add_argument("--date", help="a day in UTC, such as 2026-01-31 (default: today)")

    for name, summary, run in (
        ("approve", "let a rejected batch commit what was judged", commands.approve),
        ("abandon", "give an open batch up; its ranges are planned again", commands.abandon),
    ):
        decision = verb(name, summary, run)
        decision.add_argument("batch_id", type=int, metavar="BATCH")
        decision.add_argument("--why", required=True, help="kept with the batch")
        decision.add_argument(
            "--connection", default="postgres_default", help="Airflow connection id (postgres_default)"
        )

    skip = with_pipeline(
        verb("skip", "approve the loss of offsets that retention deleted under the cursors", commands.skip)
    )
    skip.add_argument("--why", required=True, help="kept with the batch that records the loss")

    accept = with_pipeline(
        verb("accept-topic", "go on with a recreated topic from the start of its log", commands_requests.accept_topic)
    )
    accept.add_argument("--why", required=True, help="kept with the decision")

    commands_kafka.add_verbs(verb)
    commands_publish.add_arguments(verb("publish", "publish a file of records to a topic", commands_publish.publish))

    demo = verb("demo", "the main job on real data, through Airflow, with its proof", commands.demo)
    demo.add_argument("--flights", type=int, help="only so many flights (default: all 336,776)")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code: 0, or that of the error."""
    arguments = build_parser().parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s", stream=sys.stderr)
    logging.getLogger("offset_ledger").setLevel(logging.INFO if arguments.verbose else logging.WARNING)
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    try:
        outcome: Outcome = arguments.run(arguments)
    except OffsetLedgerError as error:
        return _fail(error, arguments.json)
    except Exception as error:
        logging.getLogger("offset_ledger").info("", exc_info=error)
        told = " ".join(str(error).split())[:300]
        unexpected = (
            f"unexpected {type(error).__name__}: {told}; run it again with --verbose to see where, and report it"
        )
        return _fail(UnexpectedError(unexpected), arguments.json)
    except KeyboardInterrupt:
        print("interrupted; running it again is safe", file=sys.stderr)
        return 130
    print(json.dumps(outcome.data, default=str, indent=2) if arguments.json else outcome.text)
    return outcome.exit_code


def _fail(error: OffsetLedgerError, as_json: bool) -> int:
    if as_json:
        print(json.dumps({"error": type(error).__name__, "message": str(error)}))
    else:
        print(f"offset-ledger: {error}", file=sys.stderr)
    return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
