"""``accept-topic``: the pipeline continues with a log that is not the one it read before, or without a topic."""

from __future__ import annotations

from argparse import Namespace

from offset_ledger.cli.verbs import Outcome, Topics, Verbs, add_why, pipeline_of


def add_verb(verbs: Verbs) -> None:
    """Add it to the command line."""
    summary = "continue with a recreated topic, a truncated log, or without one of several topics that was deleted"
    verb = verbs.add_for_pipeline(
        "accept-topic",
        summary,
        run,
        Topics.ONE,
        example='offset-ledger accept-topic flights --why "recreated with more partitions"',
    )
    add_why(verb, "decision")


def run(arguments: Namespace) -> Outcome:
    """Continue with a recreated topic or a truncated log, or without a deleted topic."""
    from offset_ledger.ledger.origin import current_origin
    from offset_ledger.operations.accept_topic import accept_topic
    from offset_ledger.report.consumer_group import mirror

    pipeline = pipeline_of(arguments)
    accepted = accept_topic(pipeline, current_origin(), arguments.why)
    if accepted.starts:
        mirror(pipeline, backwards=True)
    data = {"log_id": accepted.log_id, "starts": accepted.starts}
    return Outcome(data, f"{pipeline.name} accepted {accepted}")
