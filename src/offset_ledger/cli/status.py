"""``status``: how far a pipeline has read, what is open, and what it waits for."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict
from typing import TYPE_CHECKING

from offset_ledger.cli.verbs import Outcome, Verbs, pipeline_of

if TYPE_CHECKING:
    from offset_ledger.operations.status import PipelineStatus


def add_verb(verbs: Verbs) -> None:
    """Add it to the command line."""
    verbs.add_for_pipeline(
        "status", "show cursors, lag, the open batch, and what blocks it", run, example="offset-ledger status flights"
    )


def run(arguments: Namespace) -> Outcome:
    """Cursors, lag and the open batch."""
    from offset_ledger.operations.status import status

    current = status(pipeline_of(arguments))
    return Outcome(asdict(current), _text(current))


def _text(current: PipelineStatus) -> str:
    from tabulate import tabulate

    rows = [(p.partition, p.log_start, p.cursor, p.last_stable, p.lag) for p in current.partitions]
    headers = ["partition", "log start", "cursor", "last stable", "lag"]
    lines = [
        tabulate(rows, headers=headers, missingval="none yet"),
        f"lag: {sum(p.lag for p in current.partitions):,} offsets",
        f"open head batch: {current.open_batch or 'none'}",
        f"  {current.waits_for}" if current.waits_for else "",
        f"remerge: {current.remerge}" if current.remerge else "",
        f"dead letters waiting: {current.dead_letters_waiting:,}" if current.dead_letters_waiting else "",
    ]
    return "\n".join(filter(None, lines))
