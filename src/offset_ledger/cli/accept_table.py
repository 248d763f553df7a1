"""``accept-table``: the pipeline continues with a table that was changed on purpose."""

from __future__ import annotations

from argparse import Namespace

from offset_ledger.cli.verbs import Outcome, Topics, Verbs, add_why, pipeline_of


def add_verb(verbs: Verbs) -> None:
    """Add it to the command line."""
    summary = "continue with a table that was emptied, restored or corrected on purpose"
    verb = verbs.add_for_pipeline(
        "accept-table",
        summary,
        run,
        Topics.TOGETHER,
        example='offset-ledger accept-table flights --why "emptied for a new start"',
    )
    add_why(verb, "count of the table")


def run(arguments: Namespace) -> Outcome:
    """Go on with the table as it is."""
    from offset_ledger.ledger.origin import current_origin
    from offset_ledger.operations.accept_table import accept_table

    pipeline = pipeline_of(arguments)
    event_ids = accept_table(pipeline, current_origin(), arguments.why)
    table = f"{pipeline.target.schema}.{pipeline.target.table}"
    text = f"{pipeline.name} accepted {table} with {event_ids:,} event ids, rows and delete markers together"
    return Outcome({"table": table, "event_ids": event_ids}, text)
