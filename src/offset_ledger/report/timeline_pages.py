"""The page of a pipeline over time, and the page of one day over all pipelines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from offset_ledger.config.names import DAILY_FOLDER
from offset_ledger.report.render import pipeline_folder, render, write
from offset_ledger.report.timeline import Timeline

CHARTED = 100  # batches in the charts of a pipeline
LISTED = 30  # of them in its table


@dataclass(frozen=True, slots=True)
class PipelineDay:
    """One pipeline on one day; ``missing`` says in one line why there is no timeline."""

    pipeline: str
    timeline: Timeline | None
    missing: str | None = None


def build_timeline(timeline: Timeline, folder: Path) -> Path:
    """``<folder>/<pipeline>/index.html``: the pipeline over the batches of the timeline."""
    pages = pipeline_folder(folder, timeline.pipeline)
    batches = {int(page.stem) for page in pages.glob("*.html") if page.stem.isdecimal()}
    values = {"timeline": timeline, "oldest_first": timeline.batches[::-1], "pages": batches, "listed": LISTED}
    return write(pages / "index.html", render("timeline.html.jinja", **values))


def build_day(day: date, pipelines: Sequence[PipelineDay], folder: Path) -> Path:
    """``<folder>/_daily/<day>.html``: every pipeline on that day, in UTC."""
    pages = folder / DAILY_FOLDER
    pages.mkdir(parents=True, exist_ok=True)
    for page in (folder / "daily").glob("????-??-??.html"):  # where earlier releases wrote them
        page.rename(pages / page.name)
    days = sorted(page.stem for page in pages.glob("????-??-??.html"))
    before = max((other for other in days if other < day.isoformat()), default=None)
    linked = {each.pipeline for each in pipelines if (folder / each.pipeline / "index.html").is_file()}
    values = {"day": day.isoformat(), "pipelines": pipelines, "before": before, "linked": linked}
    return write(pages / f"{day.isoformat()}.html", render("daily.html.jinja", **values))
