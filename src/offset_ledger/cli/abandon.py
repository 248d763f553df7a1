"""``abandon``: an open batch is given up."""

from __future__ import annotations

from argparse import Namespace

from offset_ledger.cli.batch_decision import add_arguments, decide_batch
from offset_ledger.cli.verbs import Outcome, Verbs


def add_verb(verbs: Verbs) -> None:
    """Add it to the command line."""
    add_arguments(verbs.add("abandon", "give an open batch up; its ranges are planned again", run))


def run(arguments: Namespace) -> Outcome:
    """Give an open batch up."""
    from offset_ledger.model.states import State

    return decide_batch(arguments, State.ABANDONED)
