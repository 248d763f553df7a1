"""What each verb of the command line does: values for --json, text for people."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from tabulate import tabulate

from offset_ledger.pipeline.model import Pipeline


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a verb found."""

    data: Any
    text: str
    exit_code: int = 0


Command = Callable[[Namespace], Outcome]


def say(line: str) -> None:
    """Progress: to stderr, so that the result stands alone on stdout."""
    print(line, file=sys.stderr, flush=True)


def pipeline_of(arguments: Namespace) -> Pipeline:
    """The pipeline that the arguments name."""
    from offset_ledger.pipeline.parse import find_pipeline, parse_pipeline

    return parse_pipeline(find_pipeline(arguments.pipeline))


# -- servers ---------------------------------------------------------------------------------------------------


def stack(arguments: Namespace) -> Outcome:
    """Start, stop or show the local servers."""
    from offset_ledger.local import stack as local

    if arguments.action == "up":
        local.up(brokers=arguments.brokers, airflow=arguments.airflow, say=say)
    elif arguments.action == "down":
        stopped = local.down(say=say)
        return Outcome({"stopped": stopped}, "stopped" if stopped else "nothing was running")
    parts = local.status()
    rows = [(p.name, "running" if p.running else "stopped", p.pid or "", p.address, p.detail) for p in parts]
    data = [asdict(p) for p in parts]
    if not parts:
        return Outcome(data, "no local stack; start one with: offset-ledger stack up")
    return Outcome(data, tabulate(rows, headers=["server", "state", "pid", "address", "detail"]))


def migrate(arguments: Namespace) -> Outcome:
    """Create or upgrade the ledger."""
    from offset_ledger.connections import get_connection
    from offset_ledger.ledger.database import connect
    from offset_ledger.ledger.migrate import migrate as apply

    with connect(get_connection(arguments.connection)) as session:
        applied = apply(session)
    return Outcome({"applied": applied}, "\n".join(f"applied {name}" for name in applied) or "the ledger is up to date")


# -- batches ---------------------------------------------------------------------------------------------------


def ingest(arguments: Namespace) -> Outcome:
    """Commit what is new, or show what would be read."""
    from offset_ledger.ledger.batches import here
    from offset_ledger.steps.ingest import ingest as run

    pipeline = pipeline_of(arguments)
    if arguments.dry_run:
        from offset_ledger.core.request import Request
        from offset_ledger.steps.preview import preview

        shown = preview(pipeline, Request(dry_run=True))
        return Outcome(shown.data, str(shown))
    done = []
    for each in run(pipeline, here(), arguments.until_drained, say):
        done.append(summary(each))
        say(line(each))
    return Outcome(done, f"{len(done)} batches committed" if done else "nothing is new, nothing changed")


def summary(ingested: Any) -> dict[str, Any]:
    """One committed batch for --json."""
    committed = ingested.committed
    return {
        "batch_id": committed.batch.batch_id,
        "counts": asdict(committed.total),
        "partitions": {p: asdict(line) for p, line in committed.sheet.items()},
        "seconds": {step: round(s, 3) for step, s in ingested.seconds.items()},
    }


def line(ingested: Any) -> str:
    """One committed batch for people."""
    total = ingested.committed.total
    counts = ", ".join(f"{n:,} {name}" for name, n in asdict(total).items() if n)
    seconds = ", ".join(f"{step} {s:.1f} s" for step, s in ingested.seconds.items())
    return f"committed batch {ingested.committed.batch.batch_id}: {total.total:,} offsets: {counts} ({seconds})"


def skip(arguments: Namespace) -> Outcome:
    """Approve a loss."""
    from offset_ledger.ledger.batches import here
    from offset_ledger.steps.lost import skip_lost
    from offset_ledger.steps.mirror import mirror

    pipeline = pipeline_of(arguments)
    committed = skip_lost(pipeline, here(), arguments.why)
    mirror(pipeline)
    lost = ", ".join(str(r) for r in committed.batch.ranges)
    text = f"batch {committed.batch.batch_id} records {committed.total.skipped:,} lost offsets as skipped: {lost}"
    return Outcome({"batch_id": committed.batch.batch_id, "skipped": committed.total.skipped}, text)


def approve(arguments: Namespace) -> Outcome:
    """Let a rejected batch commit what was judged."""
    from offset_ledger.core.states import State

    return _decide(arguments, State.VALIDATED)


def abandon(arguments: Namespace) -> Outcome:
    """Give an open batch up."""
    from offset_ledger.core.states import State

    return _decide(arguments, State.ABANDONED)


def _decide(arguments: Namespace, after: Any) -> Outcome:
    from offset_ledger.connections import get_connection
    from offset_ledger.ledger.batches import here
    from offset_ledger.ledger.database import connect
    from offset_ledger.ledger.decisions import decide

    with connect(get_connection(arguments.connection)) as session:
        batch = decide(session, arguments.batch_id, after, here(), arguments.why)
    return Outcome({"batch_id": batch.batch_id, "state": batch.state}, f"{batch}")


# -- looking ---------------------------------------------------------------------------------------------------


def check(arguments: Namespace) -> Outcome:
    """Check a pipeline file, and its suite."""
    from offset_ledger.steps.validate import read_suite

    pipeline = pipeline_of(arguments)
    read_suite(pipeline)
    return Outcome({"pipeline": pipeline.name, "config_hash": pipeline.config_hash}, f"{pipeline.path}: no mistakes")


def status(arguments: Namespace) -> Outcome:
    """Cursors, lag and the open batch."""
    from offset_ledger.steps.look import look

    found = look(pipeline_of(arguments))
    rows = [(p.partition, p.log_start, p.cursor, p.last_stable, p.lag) for p in found.partitions]
    table = tabulate(rows, headers=["partition", "log start", "cursor", "last stable", "lag"])
    letters = f"\ndead letters waiting: {found.dead_letters_waiting:,}" if found.dead_letters_waiting else ""
    return Outcome(asdict(found), f"{table}\nopen head batch: {found.open_batch or 'none'}{letters}")


def batches(arguments: Namespace) -> Outcome:
    """The batches with their balance sheets."""
    from offset_ledger.steps.look import recent_batches

    found = recent_batches(pipeline_of(arguments), arguments.limit)
    return Outcome(found, tabulate(found, headers="keys"))


def verify(arguments: Namespace) -> Outcome:
    """Check every invariant."""
    from offset_ledger.steps.verify import explain_gaps
    from offset_ledger.steps.verify import verify as run

    pipeline = pipeline_of(arguments)
    violations, checked = run(pipeline)
    lines = violations or [f"all {checked} invariants hold"]
    data: dict[str, Any] = {"violations": violations, "checked": checked}
    if arguments.deep:
        deep = explain_gaps(pipeline)
        violations = [*violations, *deep.violations]
        lines += [*deep.violations, *deep.unreadable, *map(str, deep.gaps)]
        data |= {"violations": violations, "gaps": [str(gap) for gap in deep.gaps], "unreadable": list(deep.unreadable)}
    return Outcome(data, "\n".join(lines), 1 if violations else 0)


def demo(arguments: Namespace) -> Outcome:
    """The main job on real data."""
    from offset_ledger.demo.run import run

    return run(arguments.flights, say)
