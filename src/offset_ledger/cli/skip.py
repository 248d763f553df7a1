"""``skip``: offsets or tombstones that were removed before they were read are given up."""

from __future__ import annotations

from argparse import Namespace

from offset_ledger.cli.verbs import Outcome, Topics, Verbs, add_why, pipeline_of
from offset_ledger.units import counted


def add_verb(verbs: Verbs) -> None:
    """Add it to the command line."""
    summary = "approve a loss: offsets, or tombstones, that were removed before they were read"
    verb = verbs.add_for_pipeline(
        "skip",
        summary,
        run,
        Topics.ONE,
        example='offset-ledger skip flights --why "these days were loaded from the archive"',
    )
    add_why(verb, "batch that records the loss")


def run(arguments: Namespace) -> Outcome:
    """Approve a loss."""
    from offset_ledger.ledger.origin import current_origin
    from offset_ledger.model.questions import QuestionKind
    from offset_ledger.operations.losses import loss_question, skip_lost
    from offset_ledger.operations.tombstones import approve_tombstones
    from offset_ledger.report.consumer_group import mirror

    pipeline = pipeline_of(arguments)
    question = loss_question(pipeline)
    if question and question.kind is QuestionKind.UNREAD_TOMBSTONES:
        batch = approve_tombstones(pipeline, current_origin(), arguments.why, question)
        return Outcome({"batch_id": batch.batch_id, "state": batch.state}, f"{batch} continues with the next ingest")
    committed = skip_lost(pipeline, current_origin(), arguments.why)
    mirror(pipeline)
    lost = ", ".join(map(str, committed.batch.ranges))
    text = (
        f"batch {committed.batch.batch_id} records {counted(committed.total.skipped, 'lost offset')} as skipped: {lost}"
    )
    return Outcome({"batch_id": committed.batch.batch_id, "skipped": committed.total.skipped}, text)
