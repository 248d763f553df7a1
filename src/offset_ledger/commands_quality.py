"""What the verbs about quality do."""

from __future__ import annotations

from argparse import Namespace
from datetime import UTC, date, datetime

from offset_ledger.commands import Outcome
from offset_ledger.errors import ConfigurationError


def report(arguments: Namespace) -> Outcome:
    """One day of every pipeline under dags/pipelines/."""
    from offset_ledger.pipeline.parse import parse_all
    from offset_ledger.steps.daily_report import daily_report

    made = daily_report(parse_all(), _day(arguments.date))
    return Outcome({"date": made.day, "page": made.page, "pipelines": made.figures}, str(made.page))


def _day(given: str | None) -> date:
    if given is None:
        return datetime.now(UTC).date()
    try:
        return date.fromisoformat(given)
    except ValueError:
        raise ConfigurationError(f"report: --date takes a day such as 2026-01-31, not {given!r}") from None
