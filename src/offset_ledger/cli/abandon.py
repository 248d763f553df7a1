"""``abandon``: an open batch is given up."""

from __future__ import annotations

from argparse import Namespace

from offset_ledger.cli.batch_decision import add_arguments, decide_batch
from offset_ledger.cli.verbs import Outcome, Verbs


def add_verb(verbs: Verbs) -> None:
    """Add it to the command line."""
    verb = verbs.add(
        "abandon",
        "abandon an open batch; its offsets are planned again",
        run,
        example='offset-ledger abandon 42 --why "wrong limits in the pipeline file"',
    )
    add_arguments(verb)


def run(arguments: Namespace) -> Outcome:
    """Give an open batch up."""
    from offset_ledger.model.states import State

    return decide_batch(arguments, State.ABANDONED)
