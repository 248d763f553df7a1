"""Pages from the templates: values escaped, numbers written for people, files replaced whole."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from offset_ledger.errors import ConfigurationError
from offset_ledger.report.charts import bars
from offset_ledger.units import show_span

_NONE = "\N{EN DASH}"
_SMALLEST = 0.0001


def pipeline_folder(folder: Path, pipeline: str) -> Path:
    """``<folder>/<pipeline>``, made if it is not there.

    Raises:
        ConfigurationError: the name would leave the folder.
    """
    if pipeline in ("", ".", "..") or Path(pipeline).name != pipeline:
        raise ConfigurationError(f"pipeline name {pipeline!r} cannot name a folder; use letters, digits and _")
    place = folder / pipeline
    place.mkdir(parents=True, exist_ok=True)
    return place


def write(path: Path, text: str) -> Path:
    """Whole or not at all, for somebody may be reading it."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_text(text)
    return unfinished.replace(path)


def render(template: str, **values: Any) -> str:
    """The page of a template in ``report/templates``."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    loader = PackageLoader("offset_ledger", "report/templates")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"number": number, "share": share, "moment": moment, "span": span, "short": short}
    environment.globals |= {"bars": bars, "short": short, "share": share, "span": span}
    return environment


def number(value: float | None) -> str:
    """With thousands separated."""
    return _NONE if value is None else f"{value:,}"


def short(value: float) -> str:
    """In three digits: 12.3 k, 1.2 M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}"


def share(value: float | None) -> str:
    """A share as a percentage; a small one is never shown as none, nor one just below all as all."""
    if value is None:
        return _NONE
    if 0 < value < _SMALLEST:
        return "< 0.01 %"
    if 1 - _SMALLEST < value < 1:
        return "> 99.99 %"
    text = f"{value * 100:.2f}".rstrip("0").rstrip(".")
    return f"{text} %"


def moment(value: datetime | str | None) -> str:
    """A moment in UTC, to the second."""
    if isinstance(value, datetime):
        value = value.astimezone(UTC).isoformat(timespec="seconds")
    return _NONE if value is None else value.replace("T", " ").replace("+00:00", " UTC")


def span(seconds: float | None) -> str:
    """A span of time in its largest unit: 4.2 s, 15 min, 3.5 h, 2 d."""
    return _NONE if seconds is None else show_span(timedelta(seconds=seconds), short=True)
