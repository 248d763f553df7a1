"""The command line: ``offset-ledger VERB``; every verb has --json and fails with one line and a non-zero exit."""

from __future__ import annotations

import argparse
import io
import json
import logging
import os
import sys
from collections.abc import Sequence

from offset_ledger.cli import (
    abandon,
    accept_schema,
    accept_table,
    accept_topic,
    approve,
    audit,
    batches,
    check,
    dead_letters,
    demo,
    diff,
    dismiss,
    ingest,
    init,
    lab,
    metrics,
    migrate,
    preview,
    prune,
    publish,
    quarantine,
    redrive,
    remerge,
    replay,
    report,
    skip,
    spark_server,
    stack,
    status,
    topic,
    verify,
)
from offset_ledger.cli.verbs import Verbs, run_verb
from offset_ledger.errors import OffsetLedgerError, UnexpectedError, one_line
from offset_ledger.version import __version__

# As ``--help`` lists them.
_VERBS = (
    *(stack, migrate, init, check, diff, preview, status, batches, verify, report, ingest, replay),
    *(approve, abandon, skip, accept_topic, accept_schema, remerge, accept_table),
    *(redrive, quarantine, dismiss, dead_letters, prune),
    *(publish, audit, topic, lab, spark_server, metrics, demo),
)


def build_parser() -> argparse.ArgumentParser:
    """All verbs with their arguments."""
    parser = argparse.ArgumentParser(
        prog="offset-ledger", description="Exactly-once batch ingestion, Kafka to Postgres."
    )
    parser.add_argument("--version", action="version", version=__version__)
    verbs = Verbs(parser)
    for verb in _VERBS:
        verb.add_verb(verbs)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code: 0, or that of the error."""
    arguments = build_parser().parse_args(argv)
    _configure_logging(arguments.verbose)
    try:
        outcome = run_verb(arguments)
    except OffsetLedgerError as error:
        return _fail(error, arguments.json)
    except Exception as error:
        logging.getLogger("offset_ledger").info("", exc_info=error)
        return _fail(_unexpected(error), arguments.json)
    except KeyboardInterrupt:
        print("interrupted; running it again is safe", file=sys.stderr)
        return 130
    _show(json.dumps(outcome.data, default=str, indent=2) if arguments.json else outcome.text)
    return outcome.exit_code


def _configure_logging(verbose: bool) -> None:
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s", stream=sys.stderr)
    logging.getLogger("offset_ledger").setLevel(logging.INFO if verbose else logging.WARNING)
    logging.getLogger("kafka").setLevel(logging.CRITICAL)


def _unexpected(error: Exception) -> UnexpectedError:
    return UnexpectedError(f"unexpected {one_line(error)}; run it again with --verbose to see where, and report it")


def _show(text: str) -> None:
    """Print the result. A reader that closes the pipe early, as ``head`` does, is no failure of the verb."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal of another encoding
    try:
        print(text, flush=True)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python reports it once more at its end
        if not isinstance(error, BrokenPipeError):
            sys.exit(f"offset-ledger: the result cannot be written ({error.strerror}); give it another place")


def _fail(error: OffsetLedgerError, as_json: bool) -> int:
    name = type(error).__name__
    if as_json:
        _show(json.dumps({"error": name, "message": str(error)}))
    elif "\n" in str(error) or hasattr(error, "problems"):
        print(error, file=sys.stderr)  # mistakes of a file: each line begins with its place, as editors read them
    else:
        print(f"offset-ledger: {name}: {error}", file=sys.stderr)  # the name is a heading of docs/runbook.md
    return error.exit_code
