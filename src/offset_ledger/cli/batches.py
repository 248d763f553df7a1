"""``batches``: the newest batches with their balance sheets."""

from __future__ import annotations

from argparse import Namespace

from offset_ledger.cli.output import table
from offset_ledger.cli.verbs import Outcome, Verbs, from_1, pipeline_of


def add_verb(verbs: Verbs) -> None:
    """Add it to the command line."""
    verb = verbs.add_for_pipeline(
        "batches",
        "list the newest batches with their balance sheets",
        run,
        example="offset-ledger batches flights --limit 5",
    )
    verb.add_argument("--limit", type=from_1, default=20, help="newest first (20)")


def run(arguments: Namespace) -> Outcome:
    """The batches with their balance sheets."""
    from offset_ledger.operations.status import recent_batches

    batches = recent_batches(pipeline_of(arguments), arguments.limit)
    return Outcome(batches, table(batches) if batches else "no batches yet")
