"""The command line: ``offset-ledger VERB``; every verb has --json and fails with one line and a non-zero exit."""

import json
import logging
import os
import sys
from collections.abc import Sequence
from typing import TextIO

from offset_ledger.cli import decide, demo, inspect, kafka, production, publish, running, set_up
from offset_ledger.cli.output import show
from offset_ledger.cli.verbs import Parser, add_verbs, run_verb
from offset_ledger.errors import OffsetLedgerError, UnexpectedError, UsageError, failure_of, one_line
from offset_ledger.pandas_later import this_process_is_ours
from offset_ledger.progress import clear
from offset_ledger.version import __version__

# The verbs as ``--help`` lists them: a new one is registered here, in its group.
_GROUPS = {
    "set up": (
        set_up.run_stack,
        set_up.run_migrate,
        set_up.run_init,
        set_up.run_check,
        set_up.run_preview,
        set_up.run_diff,
        set_up.run_dbt,
        set_up.run_doctor,
        set_up.run_completion,
    ),
    "run": (running.run_ingest, running.run_replay, running.run_redrive, running.run_dead_letters),
    "look": (inspect.run_status, inspect.run_batches, inspect.run_quarantine, inspect.run_verify, inspect.run_report),
    "decide": (
        decide.run_approve,
        decide.run_abandon,
        decide.run_skip,
        decide.run_dismiss,
        decide.run_accept_topic,
        decide.run_accept_schema,
        decide.run_accept_table,
        decide.run_remerge,
    ),
    "Kafka": (publish.run_publish, kafka.run_audit, kafka.run_topic, kafka.run_lab),
    "in production": (production.run_metrics, production.run_notify, production.run_prune, production.run_spark_server),
    "try it": (demo.run_demo,),
}


def build_parser() -> Parser:
    """All verbs with their arguments."""
    parser = Parser(
        prog="offset-ledger",
        usage="offset-ledger VERB ...",
        description="Exactly-once batch ingestion, Kafka to Postgres.",
        epilog="offset-ledger VERB --help shows the options of a verb, with an example.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    add_verbs(parser, _GROUPS)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code: 0, or that of the error."""
    if argv is None:
        this_process_is_ours()
    given = sys.argv[1:] if argv is None else argv
    parser = build_parser()
    if "_ARGCOMPLETE" in os.environ:  # a shell asks for completions
        import argcomplete

        argcomplete.autocomplete(parser)
    if not given:
        parser.print_help()
        return 0
    try:
        arguments = parser.parse_args(given)
    except UsageError as error:
        return _fail(error, "--json" in given)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s", handlers=[_Log(sys.stderr)])
    logging.getLogger("offset_ledger").setLevel(logging.INFO if arguments.verbose else logging.WARNING)
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    try:
        outcome = run_verb(arguments)
    except OffsetLedgerError as error:
        return _fail(error, arguments.json)
    except Exception as error:
        logging.getLogger("offset_ledger").info("", exc_info=error)
        text = f"unexpected {one_line(error)}; run it again with --verbose to see where, and report it"
        return _fail(UnexpectedError(text), arguments.json)
    except KeyboardInterrupt:
        clear()
        print("interrupted; running it again is safe", file=sys.stderr)
        return 130
    text = outcome.text
    if arguments.json:
        text = json.dumps(outcome.data, default=lambda each: getattr(each, "isoformat", each.__str__)(), indent=2)
    show(text)
    return outcome.exit_code


class _Log(logging.StreamHandler[TextIO]):
    """The log on standard error; a live line makes way."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a line."""
        clear()
        super().emit(record)


def _fail(error: OffsetLedgerError, as_json: bool) -> int:
    clear()
    if as_json:
        show(json.dumps(failure_of(error)))
    elif "\n" in str(error) or hasattr(error, "problems"):
        print(error, file=sys.stderr)  # mistakes of a file: each line begins with its place, as editors read them
    else:
        print(f"offset-ledger: {error.named}", file=sys.stderr)
    return error.exit_code
