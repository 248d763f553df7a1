"""What ``approve`` and ``abandon`` share: a decision about one open batch."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from offset_ledger.cli.completer import complete_batches
from offset_ledger.cli.verbs import Outcome, add_connection, add_why

if TYPE_CHECKING:
    from offset_ledger.model.states import State


def add_arguments(verb: ArgumentParser) -> None:
    """Which batch, why, and where the ledger is."""
    about = "the id of a batch, which status and batches show"
    complete_batches(verb.add_argument("batch_id", type=int, metavar="BATCH", help=about))
    add_why(verb, "batch")
    add_connection(verb, "postgres_default")


def decide_batch(arguments: Namespace, state: State) -> Outcome:
    """Move the batch to ``state``, with the reason given."""
    from offset_ledger.connections import get_connection
    from offset_ledger.ledger.database import connect
    from offset_ledger.ledger.decisions import decide
    from offset_ledger.ledger.origin import current_origin

    with connect(get_connection(arguments.connection)) as session:
        batch = decide(session, arguments.batch_id, state, current_origin(), arguments.why)
    return Outcome({"batch_id": batch.batch_id, "state": batch.state}, f"{batch}")
