"""The command line: ``offset-ledger VERB``; every verb has --json and fails with one line and a non-zero exit."""

import json
import logging
import os
import sys
from collections.abc import Collection, Mapping, Sequence

from offset_ledger.base.garbage_collection import collect_rarely
from offset_ledger.base.progress import clear
from offset_ledger.base.version import __version__
from offset_ledger.base.without_pandas import this_process_is_ours
from offset_ledger.errors import OffsetLedgerError, UnexpectedError, UsageError, failure_of, one_line
from offset_ledger.interfaces.cli import decide, inspect, production, running, set_up
from offset_ledger.interfaces.cli.output import show
from offset_ledger.interfaces.cli.verbs import Family, Parser, Verb, add_verbs, run_verb

Groups = Mapping[str, tuple[Verb | Family, ...]]
# The verbs as ``--help`` lists them: a new one is registered here, in its group.
_BATCH = {"list": inspect.run_batches, "show": inspect.run_batch}
_BATCH |= {"approve": decide.run_approve, "abandon": decide.run_abandon}
_QUARANTINE = {"list": inspect.run_quarantine, "retry": running.run_redrive}
_QUARANTINE |= {"dismiss": decide.run_dismiss, "deliver": running.run_dead_letters}
_ACCEPT = {"topic": decide.run_accept_topic, "schema": decide.run_accept_schema}
_ACCEPT |= {"table": decide.run_accept_table, "loss": decide.run_skip}
_SERVE = {"metrics": production.run_metrics, "spark": production.run_spark_server}
GROUPS: Groups = {
    "set up": (set_up.run_migrate, set_up.run_init, set_up.run_check, set_up.run_dbt, set_up.run_completion),
    "run": (running.run_ingest, running.run_replay, decide.run_remerge),
    "inspect": (inspect.run_status, inspect.run_verify, inspect.run_report),
    "decide": (
        Family("batch", "list batches, and decide about them", _BATCH),
        Family("quarantine", "list quarantined records, retry or dismiss them, deliver dead letters", _QUARANTINE),
        Family("accept", "accept what has changed, or a loss, and go on", _ACCEPT),
        *(decide.run_rename, decide.run_forget),
    ),
    "other": (
        Family("serve", "run a server until it is stopped: metrics, or Spark", _SERVE),
        production.run_notify,
        production.run_prune,
    ),
}


def build_parser(given: Collection[str] | None, groups: Groups) -> Parser:
    """Return the parser of all verbs, or with the words ``given`` of those verbs alone."""
    parser = Parser(
        prog="offset-ledger",
        usage="offset-ledger VERB ...",
        description="Exactly-once batch ingestion, Kafka to Postgres.",
        epilog="offset-ledger VERB --help shows the options of a verb, with an example.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    add_verbs(parser, groups, given)
    return parser


def main(argv: Sequence[str] | None, groups: Groups) -> int:
    """Run one verb and return its exit code: 0, or that of the error."""
    if argv is None:
        this_process_is_ours()
        collect_rarely()
    given = sys.argv[1:] if argv is None else argv
    if "_ARGCOMPLETE" in os.environ:  # a shell asks for completions
        import argcomplete

        argcomplete.autocomplete(build_parser(None, groups))
    parser = build_parser(given, groups)
    if not given:
        parser.print_help()
        return 0
    try:
        arguments = parser.parse_args(given)
    except UsageError as error:
        return _fail(error, "--json" in given)
    handler = logging.StreamHandler()
    handler.addFilter(_make_way)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s", handlers=[handler])
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
    if text:
        show(text)
    return outcome.exit_code


def _make_way(_: logging.LogRecord) -> bool:
    """Remove the live line before a line of the log."""
    clear()
    return True


def _fail(error: OffsetLedgerError, as_json: bool) -> int:
    clear()
    if as_json:
        show(json.dumps(failure_of(error)))
    elif hasattr(error, "problems"):
        print(error, file=sys.stderr)  # mistakes of a file: each line begins with its place, as editors read them
    else:
        print(f"offset-ledger: {error.named}", file=sys.stderr)
    return error.exit_code
