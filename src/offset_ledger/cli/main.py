"""The command line: ``offset-ledger VERB``; every verb has --json and fails with one line and a non-zero exit."""

from __future__ import annotations

import argparse
import io
import json
import logging
import os
import sys
from collections.abc import Sequence

from offset_ledger.cli import batches, decisions, demo, kafka, looking, publish, quarantine, servers
from offset_ledger.cli.verbs import Outcome, Verbs
from offset_ledger.errors import OffsetLedgerError, UnexpectedError, one_line
from offset_ledger.version import __version__


def build_parser() -> argparse.ArgumentParser:
    """All verbs with their arguments."""
    parser = argparse.ArgumentParser(
        prog="offset-ledger", description="Exactly-once batch ingestion, Kafka to Postgres."
    )
    parser.add_argument("--version", action="version", version=__version__)
    verbs = Verbs(parser)
    for module in (servers, looking, batches, decisions, quarantine, publish, kafka, demo):
        module.add_verbs(verbs)
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
        unexpected = (
            f"unexpected {type(error).__name__}: {one_line(error)}; "
            "run it again with --verbose to see where, and report it"
        )
        return _fail(UnexpectedError(unexpected), arguments.json)
    except KeyboardInterrupt:
        print("interrupted; running it again is safe", file=sys.stderr)
        return 130
    _show(json.dumps(outcome.data, default=str, indent=2) if arguments.json else outcome.text)
    return outcome.exit_code


def _show(text: str) -> None:
    """Print the result. Who stops reading it, as ``head`` does, has read enough: that is no failure of the verb."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal of another encoding
    try:
        print(text, flush=True)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python tells it once more at its end
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
