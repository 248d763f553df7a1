"""The verbs that look and change nothing."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict
from datetime import UTC, date, datetime
from typing import Any

from tabulate import tabulate

from offset_ledger.cli.verbs import Outcome, Verbs, from_1, pipeline_of, table
from offset_ledger.errors import ConfigurationError


def add_verbs(verbs: Verbs) -> None:
    """Add the verbs of this module to the command line."""
    verbs.of_pipeline("check", "check a pipeline file, and whether its table fits", check)
    verbs.of_pipeline("status", "cursors, lag and the open batch", status)
    made = verbs.of_pipeline("batches", "the batches with their balance sheets", batches)
    made.add_argument("--limit", type=from_1, default=20, help="newest first (20)")
    made = verbs.of_pipeline("verify", "check every invariant of the ledger", verify)
    made.add_argument("--deep", action="store_true", help="read the gaps again and name the cause of each offset")
    topic = "read again what the topic still holds, and compare every row and every quarantined record with it"
    made.add_argument("--against-topic", action="store_true", help=topic)
    made = verbs.add("report", "one day of every pipeline, as a page and as figures", report)
    made.add_argument("--date", help="a day in UTC, such as 2026-01-31 (default: today)")


def check(arguments: Namespace) -> Outcome:
    """Check a pipeline file, its suite, and the table where that can be reached."""
    from offset_ledger.operations.check_table import compare_table
    from offset_ledger.validate.step import read_suite

    pipeline = pipeline_of(arguments)
    read_suite(pipeline)
    compared, line = compare_table(pipeline)
    data = {"pipeline": pipeline.name, "config_hash": pipeline.config_hash, "table": compared}
    return Outcome(data, f"{pipeline.path}: no mistakes\n{line}")


def status(arguments: Namespace) -> Outcome:
    """Cursors, lag and the open batch."""
    from offset_ledger.operations.status import status

    found = status(pipeline_of(arguments))
    rows = [(p.partition, p.log_start, p.cursor, p.last_stable, p.lag) for p in found.partitions]
    headers = ["partition", "log start", "cursor", "last stable", "lag"]
    lines = [
        tabulate(rows, headers=headers, missingval="none yet"),
        f"lag: {sum(p.lag for p in found.partitions):,} offsets",
        f"open head batch: {found.open_batch or 'none'}",
        f"  {found.waits_for}" if found.waits_for else "",
        f"remerge: {found.remerge}" if found.remerge else "",
        f"dead letters waiting: {found.dead_letters_waiting:,}" if found.dead_letters_waiting else "",
    ]
    return Outcome(asdict(found), "\n".join(filter(None, lines)))


def batches(arguments: Namespace) -> Outcome:
    """The batches with their balance sheets."""
    from offset_ledger.operations.status import recent_batches

    found = recent_batches(pipeline_of(arguments), arguments.limit)
    return Outcome(found, table(found) if found else "no batches yet")


def verify(arguments: Namespace) -> Outcome:
    """Check every invariant."""
    from offset_ledger.operations.verify import explain_gaps, uncounted_reason
    from offset_ledger.operations.verify import verify as run

    pipeline = pipeline_of(arguments)
    violations, checked = run(pipeline)
    whole = f"all {checked} invariants hold" if checked else f"{pipeline.name} has no batches yet: nothing to check"
    notes = [note] if (note := uncounted_reason(pipeline)) else []
    lines = [*(violations or [whole]), *notes]
    data: dict[str, Any] = {"violations": violations, "checked": checked, "notes": notes}
    if arguments.deep:
        deep = explain_gaps(pipeline)
        violations = [*violations, *deep.violations]
        lines += [*deep.violations, *deep.unreadable, *map(str, deep.gaps)]
        data |= {"violations": violations, "gaps": [str(gap) for gap in deep.gaps], "unreadable": list(deep.unreadable)}
    if arguments.against_topic:
        from offset_ledger.operations.verify_against_topic import compare_with_topic

        compared = compare_with_topic(pipeline)
        violations = [*violations, *compared.violations]
        ranges = ", ".join(map(str, compared.ranges)) or "nothing"
        read = f"{compared.records:,} records of {pipeline.source.topic} read again: {ranges}"
        lines += [*compared.violations, *compared.notes, read]
        data |= {"violations": violations, "notes": [*notes, *compared.notes], "records": compared.records}
        data |= {"read_again": [[r.partition, r.from_offset, r.until_offset] for r in compared.ranges]}
    return Outcome(data, "\n".join(lines), 1 if violations else 0)


def report(arguments: Namespace) -> Outcome:
    """One day of every pipeline under dags/pipelines/."""
    from offset_ledger.config.parse import parse_all
    from offset_ledger.report.daily import daily_report

    made = daily_report(parse_all(), _day(arguments.date))
    return Outcome({"date": made.day, "page": made.page, "pipelines": made.metrics}, str(made.page))


def _day(given: str | None) -> date:
    if given is None:
        return datetime.now(UTC).date()
    try:
        return date.fromisoformat(given)
    except ValueError:
        raise ConfigurationError(f"report: --date takes a day such as 2026-01-31, not {given!r}") from None
