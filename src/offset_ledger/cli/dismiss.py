"""``dismiss``: quarantined records that will never fit, set apart or taken back."""

from __future__ import annotations

from argparse import Namespace

from offset_ledger.cli.verbs import Outcome, Topics, Verbs, add_why, pipeline_of


def add_verb(verbs: Verbs) -> None:
    """Add it to the command line."""
    summary = "dismiss quarantined records that will never be loaded; no redrive takes them"
    verb = verbs.add_for_pipeline(
        "dismiss",
        summary,
        run,
        Topics.ONE,
        example='offset-ledger dismiss flights --partition 0 --offset 17 18 --why "test records"',
    )
    verb.add_argument("--partition", type=int, help="of the records named by --offset")
    verb.add_argument("--offset", type=int, nargs="+", metavar="O", help="one or more offsets of that partition")
    verb.add_argument("--reason", help="all records refused for this reason code; see: quarantine PIPELINE")
    verb.add_argument("--since", help="only records quarantined since, ISO 8601 with zone")
    add_why(verb, "decision")
    verb.add_argument("--undo", action="store_true", help="take the dismissal of these records back")


def run(arguments: Namespace) -> Outcome:
    """Dismiss quarantined records, or undo that."""
    from offset_ledger.ledger.dismissals import Selection
    from offset_ledger.ledger.origin import current_origin
    from offset_ledger.operations.dismiss import dismiss
    from offset_ledger.operations.redrive import parse_choice

    pipeline = pipeline_of(arguments)
    choice = parse_choice(arguments.reason, arguments.since)
    offsets = None if arguments.offset is None else tuple(arguments.offset)
    selection = Selection(arguments.partition, offsets, choice.reason, choice.since)
    done = dismiss(pipeline, selection, current_origin(), arguments.why, arguments.undo)
    data = {"dismissal_id": done.dismissal_id, "records": done.records, "undone": arguments.undo}
    return Outcome(data, done.message)
