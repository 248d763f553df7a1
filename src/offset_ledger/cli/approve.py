"""``approve``: a rejected batch may commit."""

from __future__ import annotations

from argparse import Namespace

from offset_ledger.cli.batch_decision import add_arguments, decide_batch
from offset_ledger.cli.verbs import Outcome, Verbs


def add_verb(verbs: Verbs) -> None:
    """Add it to the command line."""
    verb = verbs.add(
        "approve",
        "let a rejected batch commit what was validated",
        run,
        example='offset-ledger approve 42 --why "checked with the producer"',
    )
    add_arguments(verb)


def run(arguments: Namespace) -> Outcome:
    """Let a rejected batch commit what was validated."""
    from offset_ledger.model.states import State

    return decide_batch(arguments, State.VALIDATED)
