"""``report``: one day of every pipeline."""

from __future__ import annotations

from argparse import Namespace
from datetime import UTC, date, datetime

from offset_ledger.cli.verbs import Outcome, Verbs
from offset_ledger.errors import ConfigurationError


def add_verb(verbs: Verbs) -> None:
    """Add it to the command line."""
    verb = verbs.add(
        "report",
        "write the daily report of all pipelines: a page, and metrics",
        run,
        example="offset-ledger report --date 2026-01-31",
    )
    verb.add_argument("--date", help="a day in UTC, such as 2026-01-31 (default: today)")


def run(arguments: Namespace) -> Outcome:
    """One day of every pipeline under dags/pipelines/."""
    from offset_ledger.config.parse import parse_all
    from offset_ledger.report.daily import daily_report

    report = daily_report(parse_all(), _day(arguments.date))
    return Outcome({"date": report.day, "page": report.page, "pipelines": report.metrics}, str(report.page))


def _day(given: str | None) -> date:
    if given is None:
        return datetime.now(UTC).date()
    try:
        return date.fromisoformat(given)
    except ValueError:
        raise ConfigurationError(f"report: --date takes a day such as 2026-01-31, not {given!r}") from None
