"""The verbs that show the ledger: ``status``, ``verify``, ``report``, and those that list or show."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offset_ledger.base.local_files import whole_file
from offset_ledger.base.units import counted, show_duration
from offset_ledger.errors import ConfigurationError, UsageError
from offset_ledger.interfaces.cli.output import show, table
from offset_ledger.interfaces.cli.verbs import (
    BATCH,
    PIPELINE,
    OneOf,
    Option,
    Outcome,
    connection,
    from_1,
    optional_pipeline,
    pipeline_of,
    say,
    since,
    verb,
)
from offset_ledger.outside.connections import get_connection

if TYPE_CHECKING:
    from offset_ledger.operations.status.status import PipelineStatus
    from offset_ledger.pipeline_file.pipeline import Pipeline
    from offset_ledger.postgres.ledger.redrive import RedriveChoice


@verb(optional_pipeline(), example="offset-ledger status\n  offset-ledger status flights")
def run_status(arguments: Namespace) -> Outcome:
    """Show where a pipeline stands, and what blocks it; without a name, a line for each."""
    if arguments.pipeline is not None:
        from offset_ledger.operations.status.status import status

        current = status(pipeline_of(arguments))
        return Outcome(asdict(current), _text(current))
    from offset_ledger.operations.status.overview import overview
    from offset_ledger.operations.status.pipeline import COUNTED

    lines = overview()
    noted: dict[str, list[str]] = {}  # a note about several is shown once
    for line in lines:
        for note in filter(None, (line.error, line.blocked_by, line.retired)):
            noted.setdefault(note, []).append(line.pipeline)
    notes = [f"{', '.join(names)}: {note}" for note, names in noted.items()]
    rows = []
    for line in lines:
        age, more = "", "+" if line.quarantined == COUNTED else ""
        if line.newest_record is not None:
            seconds = (datetime.now(UTC) - line.newest_record).total_seconds()
            age = f"{show_duration(seconds)} old" if seconds > 0 else "now"
        row = {
            "pipeline": line.pipeline,
            "state": line.state,
            "lag": "" if line.retired else "?" if line.lag is None else f"{line.lag:,}",
            "newest record": age,
            "quarantine": "?" if line.quarantined is None else f"{line.quarantined:,}{more}",
            "open batch": line.open_batch or "",
        }
        rows.append(row)
    text = "\n".join([table(rows) if rows else "no pipelines yet", *([""] if notes else []), *notes])
    return Outcome([asdict(line) for line in lines], text, 1 if any(line.error for line in lines) else 0)


def _text(current: PipelineStatus) -> str:
    from tabulate import tabulate

    rows = [(p.partition, p.log_start, p.cursor, p.last_stable, p.lag) for p in current.partitions]
    headers = ["partition", "log start", "cursor", "last stable", "lag"]
    lost = sum(p.lost for p in current.partitions)
    changed = ", ".join(str(p.partition) for p in current.partitions if p.cut_off)
    log = [
        tabulate(rows, headers=headers, missingval="none yet"),
        f"lag: {counted(sum(p.lag for p in current.partitions), 'offset')}",
        f"lost: {counted(lost, 'offset')} deleted before they were read" if lost else "",
        f"the topic was recreated, or its log ends below the cursor: partition {changed}" if changed else "",
    ]
    lines = [
        *([current.retired] if current.retired else log),
        f"open head batch: {current.open_batch or 'none'}",
        f"  {current.waits_for}" if current.waits_for else "",
        f"remerge: {current.remerge}" if current.remerge else "",
        f"dead letters waiting: {current.dead_letters_waiting:,}" if current.dead_letters_waiting else "",
    ]
    return "\n".join(filter(None, lines))


@verb(
    PIPELINE,
    Option("--limit", type=from_1, default=20, help="newest first (20)"),
    example="offset-ledger batch list flights --limit 5",
)
def run_batches(arguments: Namespace) -> Outcome:
    """List the newest batches with their balance sheets."""
    from offset_ledger.operations.status.status import recent_batches

    batches = recent_batches(pipeline_of(arguments), arguments.limit)
    return Outcome(batches, table(batches) if batches else "no batches yet")


@verb(BATCH, connection("postgres_default"), example="offset-ledger batch show 42")
def run_batch(arguments: Namespace) -> Outcome:
    """Show one batch: its balance sheet by partition, and what happened to it."""
    from offset_ledger.postgres.ledger.batches import read_batch
    from offset_ledger.postgres.ledger.database import open_ledger_at, transaction

    with open_ledger_at(get_connection(arguments.connection)) as session, transaction(session) as cursor:
        batch = read_batch(cursor, arguments.batch_id)
        ranges = [dict(row) for row in cursor.run("page/batch_ranges", batch_id=batch.batch_id)]
        events = [dict(row) for row in cursor.run("page/batch_events", batch_id=batch.batch_id)]
    names = ("batch_id", "pipeline", "kind", "state", "epoch", "engine", "engine_reason", "planned_at")
    data = {name: getattr(batch, name) for name in names} | {"ranges": ranges, "events": events}
    text = "\n\n".join([f"{batch}", *([batch.reasons] if batch.reasons else []), table(ranges), table(events)])
    return Outcome(data | {"reasons": (batch.verdict or {}).get("reasons", [])}, text)


@verb(
    PIPELINE,
    Option("--reason", help="only this reason code"),
    since("only records quarantined since"),
    Option("--limit", type=from_1, default=5, help="coordinates shown of each reason (5)"),
    OneOf(
        Option("--resolved", action="store_true", help="those that a redrive has resolved instead"),
        Option("--dismissed", action="store_true", help="those that a person has dismissed instead"),
    ),
    Option("--export", metavar="FILE", help="write all, with bytes, to a .jsonl or .csv file; - prints JSON lines"),
    example="offset-ledger quarantine list flights --since 1h",
)
def run_quarantine(arguments: Namespace) -> Outcome:
    """List the quarantined records by reason, with examples."""
    from offset_ledger.operations.status.status import rejected_batch
    from offset_ledger.steps.run.redrive import list_quarantined, parse_choice

    choice, pipeline = parse_choice(arguments.reason, arguments.since, arguments.limit), pipeline_of(arguments)
    if arguments.export:
        return _export(arguments, pipeline, choice)
    total, *reasons = list_quarantined(pipeline, choice, arguments.resolved, arguments.dismissed)
    dismissed = list_quarantined(pipeline, choice, dismissed=True)[0]["records"]
    waiting = rejected_batch(pipeline, arguments.limit)
    state = "resolved" if arguments.resolved else "dismissed" if arguments.dismissed else "unresolved"
    apart = f", and {dismissed:,} dismissed" if dismissed and not arguments.dismissed else ""
    lines = [*([_by_reason(reasons)] if reasons else []), f"{counted(total['records'], f'{state} record')}{apart}"]
    if waiting:
        lines += [f"\nnot among them: what {waiting.batch} refused", _by_reason(waiting.refused), waiting.waits_for]
    data = {"records": total["records"], "dismissed": dismissed, "in_redrive": total["in_redrive"], "reasons": reasons}
    return Outcome(data | {"rejected": asdict(waiting) if waiting else None}, "\n".join(filter(None, lines)))


def _export(arguments: Namespace, pipeline: Pipeline, choice: RedriveChoice) -> Outcome:
    from offset_ledger.operations.repair.quarantine_export import export_lines

    file, written = arguments.export, 0
    printed, as_csv = file == "-", file.endswith(".csv")
    if printed and arguments.json:
        raise UsageError("--export - prints JSON lines already; leave out --json, or name a file")
    if not printed and not as_csv and not file.endswith(".jsonl"):
        raise UsageError(f"--export takes a file that ends in .jsonl or .csv, or -, found {file!r}")
    lines = export_lines(pipeline, choice, arguments.resolved, arguments.dismissed, as_csv)
    try:
        with nullcontext() if printed else whole_file(Path(file)) as out:
            for line in lines:
                print(line, file=out) if out else show(line)
                written += 1
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be written: {error.strerror}; name another --export") from None
    records = written - as_csv  # without the header
    text = f"{counted(records, 'record')} of {pipeline.name} written to {file}"
    if printed:
        say(text)
    return Outcome({"records": records, "file": file}, "" if printed else text)


def _by_reason(reasons: Sequence[Mapping[str, Any]]) -> str:
    return table({**reason, "examples": " ".join(reason["examples"] or ())} for reason in reasons)


@verb(
    PIPELINE,
    Option("--deep", action="store_true", help="read the gaps again and name the cause of each offset"),
    Option(
        "--against-topic",
        action="store_true",
        help="read again what the topic still has, and compare every row and every quarantined record with it",
    ),
    example="offset-ledger verify flights --against-topic",
)
def run_verify(arguments: Namespace) -> Outcome:
    """Check every invariant of the ledger, and the number of rows in the table."""
    from offset_ledger.operations.repair.verify import Violation, explain_gaps, verify

    pipeline, more = pipeline_of(arguments), dict[str, Any]()
    violations, checked = verify(pipeline)
    different = list[Violation]()
    summary = f"all {checked} invariants hold" if checked else f"{pipeline.name} has no batches yet: nothing to check"
    notes = list[str]()
    lines: list[str] = [*violations, *([] if violations else [summary])]
    if arguments.deep:
        deep = explain_gaps(pipeline)
        violations += deep.violations
        lines += [*deep.violations, *deep.unreadable, *map(str, deep.gaps)]
        more |= {"gaps": [str(gap) for gap in deep.gaps], "unreadable": list(deep.unreadable)}
        more["gap_ranges"] = [{**asdict(gap.offsets), "cause": gap.cause} for gap in deep.gaps]
    if arguments.against_topic:
        from offset_ledger.operations.repair.verify_against_topic import compare_with_topic

        compared = compare_with_topic(pipeline)
        different += compared.violations
        notes += compared.notes
        ranges = ", ".join(map(str, compared.ranges)) or "nothing"
        read = f"{counted(compared.records, 'record')} of {pipeline.source.topic} read again: {ranges}"
        lines += [*compared.violations, *compared.notes, read]
        more["records"] = compared.records
        more["read_again"] = [[r.partition, r.from_offset, r.until_offset] for r in compared.ranges]
    violated, differs = (sorted({line.number for line in each}) for each in (violations, different))
    data = {"violations": [*violations, *different], "violated": violated, "topic_violated": differs, **more}
    return Outcome(data | {"checked": checked, "notes": notes}, "\n".join(lines), 1 if data["violations"] else 0)


@verb(
    Option("--date", help="a day in UTC, such as 2026-01-31 (default: today)"),
    example="offset-ledger report --date 2026-01-31",
)
def run_report(arguments: Namespace) -> Outcome:
    """Write the daily report of all pipelines: a page, and metrics."""
    from offset_ledger.pipeline_file.parse import parse_all
    from offset_ledger.steps.report.step import daily_report

    day = datetime.now(UTC).date()
    try:
        day = day if arguments.date is None else date.fromisoformat(arguments.date)
    except ValueError:
        raise ConfigurationError(f"report: --date takes a day such as 2026-01-31, not {arguments.date!r}") from None
    report = daily_report(parse_all(), day)
    return Outcome({"date": report.day, "page": report.page, "pipelines": report.metrics}, str(report.page))
