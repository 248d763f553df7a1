"""``redrive``: quarantined records tried again."""

from __future__ import annotations

from argparse import Namespace

from offset_ledger.cli.output import batch_data, batch_line
from offset_ledger.cli.verbs import Outcome, Verbs, pipeline_of, say


def add_verb(verbs: Verbs) -> None:
    """Add it to the command line."""
    verb = verbs.add_for_pipeline(
        "redrive",
        "retry quarantined records, with the current pipeline file and suite",
        run,
        example="offset-ledger redrive flights --reason type --limit 1000",
    )
    verb.add_argument("--reason", help="only records refused for this reason code; see: quarantine PIPELINE")
    verb.add_argument("--since", help="only records quarantined since, ISO 8601 with zone")
    verb.add_argument("--limit", type=int, help="maximum number of records (limits.records_per_batch)")
    verb.add_argument("--why", help="recorded with the batch")


def run(arguments: Namespace) -> Outcome:
    """Try quarantined records again."""
    from offset_ledger.ledger.origin import current_origin
    from offset_ledger.operations.ingest import run_batch
    from offset_ledger.operations.redrive import parse_choice, plan_redrive

    pipeline = pipeline_of(arguments)
    choice = parse_choice(arguments.reason, arguments.since, arguments.limit)
    planned = plan_redrive(pipeline, choice, current_origin(), arguments.why)
    say(planned.message)
    if planned.batch is None:
        return Outcome(None, "nothing is to redrive, nothing changed")
    batch = run_batch(pipeline, planned, current_origin(), say)
    return Outcome(batch_data(batch), batch_line(batch))
