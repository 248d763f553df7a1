"""``dead-letters``: what waits in the outbox, delivered."""

from __future__ import annotations

from argparse import Namespace

from offset_ledger.cli.verbs import Outcome, Verbs, pipeline_of


def add_verb(verbs: Verbs) -> None:
    """Add it to the command line."""
    verbs.add_for_pipeline(
        "dead-letters", "deliver pending dead letters", run, example="offset-ledger dead-letters flights"
    )


def run(arguments: Namespace) -> Outcome:
    """Deliver what waits in the outbox."""
    from offset_ledger.operations.dead_letters import deliver

    delivered = deliver(pipeline_of(arguments))
    entry = {"published": delivered.published, "found": delivered.already_delivered}
    return Outcome(entry, str(delivered))
