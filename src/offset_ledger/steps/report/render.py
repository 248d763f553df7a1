"""Pages from templates with escaped values, numbers for people and small charts; files are replaced atomically."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from offset_ledger.base.local_files import whole_file
from offset_ledger.base.units import show_duration, show_number, show_share
from offset_ledger.errors import ConfigurationError

_NONE = "\N{EN DASH}"
_PLAIN_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e-?\d+)?")
_LONG_NUMBER = re.compile(r"(?<![\w.])(\d+)(?:\.\d{6,}(?:e[+-]?\d+)?|(?:\.\d+)?e[+-]\d+)\b")


def pipeline_folder(folder: Path, pipeline: str) -> Path:
    """``<folder>/<pipeline>``, created if missing; raises ConfigurationError for a name that leaves the folder."""
    if pipeline in ("", ".", "..") or Path(pipeline).name != pipeline:
        raise ConfigurationError(f"pipeline name {pipeline!r} cannot name a folder; use letters, digits and _")
    pages = folder / pipeline
    pages.mkdir(parents=True, exist_ok=True)
    return pages


def write(path: Path, text: str) -> Path:
    """Write the file completely or not at all: somebody may be reading it."""
    with whole_file(path) as out:
        out.write(text)
    return path


def render(template: str, **values: Any) -> str:
    """The page of a template in ``report/templates``."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    loader = ChoiceLoader(
        [PackageLoader("offset_ledger", of) for of in ("steps/report/templates", "interfaces/page/static")]
    )
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"number": number, "share": share, "moment": moment, "span": span, "short": short}
    environment.filters |= {"observed": observed, "rounded": rounded}
    environment.globals |= {"bars": bars, "short": short, "share": share, "span": span}
    return environment


def number(value: float | None) -> str:
    """Return the number with thousands separated."""
    return _NONE if value is None else f"{value:,}"


def short(value: float) -> str:
    """Return the number in three digits: 12.3 k, 1.2 M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{show_number(value / size)} {unit}"
    return show_number(value)


def share(value: float | None) -> str:
    """Return a share as a percentage; a dash if there is none."""
    return _NONE if value is None else show_share(value)


def observed(value: str | None, expectation_type: str) -> str:
    """An observed value: a proportion as a percentage, other numbers without long decimals."""
    if value is None:
        return _NONE
    if "proportion" in expectation_type and _PLAIN_NUMBER.fullmatch(value):
        return share(float(value))
    return rounded(value)


def rounded(text: str) -> str:
    """Return the text with at most six significant digits in each number that has long decimals or an exponent."""
    return _LONG_NUMBER.sub(
        lambda match: f"{Decimal(f'{float(match[0]):.6g}'):,f}" if len(match[1]) < 7 else match[1], text
    )


def moment(value: datetime | str | None) -> str:
    """A moment in UTC, to the second."""
    if isinstance(value, datetime):
        value = value.astimezone(UTC).isoformat(timespec="seconds")
    return _NONE if value is None else value.replace("T", " ").replace("+00:00", " UTC")


def span(seconds: float | None) -> str:
    """Return a duration; a dash if there is none."""
    return _NONE if seconds is None else show_duration(seconds)


_GAP = 0.2  # of the width of a slot
_MIN_HEIGHT = 0.015  # so that a small value is visible


@dataclass(frozen=True, slots=True)
class Bar:
    """A rectangle from the bottom; ``index`` is that of its value."""

    index: int
    x: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Bars:
    """The bars of one measure, and the value at the top of the box."""

    bars: tuple[Bar, ...]
    top: float


def bars(values: Sequence[float | None], min_top: float = 0.0, slots: int = 20) -> Bars:
    """A bar for each value, oldest left; None has no bar.

    The box ends at the highest value, or at ``min_top`` if that is higher. With fewer values than ``slots`` the bars
    stay as narrow as with that many, on the left.
    """
    top = max([min_top, *(value for value in values if value is not None)])
    step = 1 / max(len(values), slots, 1)
    width, drawn = round(step * (1 - _GAP), 5), []
    for index, value in enumerate(values):
        if value is not None:
            height = round(max(value / top, _MIN_HEIGHT), 5) if value and top else 0.0
            drawn.append(Bar(index, round((index + _GAP / 2) * step, 5), width, height))
    return Bars(tuple(drawn), top)
