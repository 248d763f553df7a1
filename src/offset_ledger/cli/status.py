"""``status``: how far a pipeline has read, what is open, and what it waits for."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from offset_ledger.cli.output import table
from offset_ledger.cli.verbs import Outcome, Topics, Verbs, add_pipeline, pipeline_of
from offset_ledger.units import counted

if TYPE_CHECKING:
    from offset_ledger.operations.overview import PipelineLine
    from offset_ledger.operations.status import PipelineStatus


def add_verb(verbs: Verbs) -> None:
    """Add it to the command line."""
    summary = "show where a pipeline stands, and what blocks it; without a name, a line for each"
    verb = verbs.add("status", summary, run, example="offset-ledger status\n  offset-ledger status flights")
    verb.set_defaults(topics=Topics.EACH)
    add_pipeline(verb, nargs="?")


def run(arguments: Namespace) -> Outcome:
    """Cursors, lag and the open batch of one pipeline, or a line for each."""
    if arguments.pipeline is None:
        return _all()
    from offset_ledger.operations.status import status

    current = status(pipeline_of(arguments))
    return Outcome(asdict(current), _text(current))


def _all() -> Outcome:
    """Every pipeline; exit code 1 if something of one cannot be read."""
    from offset_ledger.operations.overview import overview

    lines = overview()
    notes = [
        f"{line.pipeline}: {note}" for line in lines for note in (line.error, line.blocked_by, line.retired) if note
    ]
    text = "\n".join([table(map(_row, lines)) if lines else "no pipelines yet", *([""] if notes else []), *notes])
    return Outcome([asdict(line) for line in lines], text, 1 if any(line.error for line in lines) else 0)


def _row(line: PipelineLine) -> dict[str, Any]:
    from offset_ledger.operations.overview import COUNTED

    more = "+" if line.quarantined == COUNTED else ""
    return {
        "pipeline": line.pipeline,
        "state": line.state,
        "lag": "" if line.retired else "?" if line.lag is None else f"{line.lag:,}",
        "newest record": _age(line.newest_record),
        "quarantine": "?" if line.quarantined is None else f"{line.quarantined:,}{more}",
        "open batch": line.open_batch or "",
    }


def _age(moment: datetime | None) -> str:
    if moment is None:
        return ""
    from offset_ledger.units import show_duration

    seconds = (datetime.now(UTC) - moment).total_seconds()
    return f"{show_duration(seconds)} old" if seconds > 0 else "now"


def _text(current: PipelineStatus) -> str:
    from tabulate import tabulate

    rows = [(p.partition, p.log_start, p.cursor, p.last_stable, p.lag) for p in current.partitions]
    headers = ["partition", "log start", "cursor", "last stable", "lag"]
    log = [
        tabulate(rows, headers=headers, missingval="none yet"),
        f"lag: {counted(sum(p.lag for p in current.partitions), 'offset')}",
    ]
    lines = [
        *([current.retired] if current.retired else log),
        f"open head batch: {current.open_batch or 'none'}",
        f"  {current.waits_for}" if current.waits_for else "",
        f"remerge: {current.remerge}" if current.remerge else "",
        f"dead letters waiting: {current.dead_letters_waiting:,}" if current.dead_letters_waiting else "",
    ]
    return "\n".join(filter(None, lines))
