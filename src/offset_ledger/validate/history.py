"""A head batch compared with the committed head batches before it: volume and share of NULL. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from statistics import median

from offset_ledger.config.model import History, NullBand, Unusual, VolumeBand
from offset_ledger.model.batch import Profile
from offset_ledger.units import show_share, show_span

_HOUR = timedelta(hours=1)
_MIN_TIME = 0.1  # of the usual time: a handful of records in a moment says nothing about the pace


class Standing(StrEnum):
    """The result of comparing a measure with the recent batches."""

    USUAL = "usual"
    UNUSUAL = "unusual"
    NOT_COMPARED = "not compared"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One measure of a batch and its usual value; ``text`` says both in one line."""

    measure: str
    standing: Standing
    action: Unusual
    text: str


def compare(rule: History, batch: Profile, before: Sequence[Profile]) -> tuple[Comparison, ...]:
    """Each measure of the rule: usual, unusual, or not compared and why.

    ``before`` are the committed head batches before this one, newest first, up to ``rule.batches`` + 1: the time that
    a batch covers begins with the batch before it.
    """
    comparisons: list[Comparison] = []
    if rule.volume is not None:
        comparisons.append(_volume(rule.volume, rule.min_batches, batch, before[: rule.batches + 1]))
    if rule.null_share is not None:
        band, recent = rule.null_share, before[: rule.batches]
        for column in band.columns or sorted(batch.nulls):
            standing, text = _null_share(band, rule.min_batches, column, batch, recent)
            measure = f"share of NULL in {column}"
            comparisons.append(Comparison(measure, standing, band.action, f"{measure}: {text}"))
    return tuple(comparisons)


def _volume(band: VolumeBand, min_batches: int, batch: Profile, before: Sequence[Profile]) -> Comparison:
    def comparison(standing: Standing, text: str) -> Comparison:
        return Comparison("volume", standing, band.action, f"volume: {text}")

    times = [(each.records, _covered(each, before[index + 1 :])) for index, each in enumerate(before)]
    covered = [(records, time) for records, time in times if time]
    if len(covered) < min_batches:
        return comparison(Standing.NOT_COMPARED, _too_few(len(covered), min_batches))
    usual = median(_pace(records, time) for records, time in covered)
    usual_time = timedelta(seconds=median(time.total_seconds() for _, time in covered))
    time = _covered(batch, before)
    if time < usual_time * _MIN_TIME:
        text = f"not compared: its records cover {show_span(time)}, usually {show_span(usual_time)}"
        return comparison(Standing.NOT_COMPARED, text)
    pace = _pace(batch.records, time)
    inside = band.low * usual <= pace <= band.high * usual
    text = f"{pace:,.0f} records an hour, usually {usual:,.0f}; the band is {band.low:g} to {band.high:g} times that"
    return comparison(Standing.USUAL if inside else Standing.UNUSUAL, text)


def _covered(batch: Profile, older: Sequence[Profile]) -> timedelta:
    """The time that its records cover: from the latest record before it to its own latest one; 0 if that is not later.

    By record timestamps, not by the clock: after a standstill one batch, or several in a row, catch up.
    """
    earlier = [each.newest for each in older if each.newest is not None]
    if batch.newest is None or not earlier:
        return timedelta(0)
    return max(batch.newest - max(earlier), timedelta(0))


def _pace(records: int, time: timedelta) -> float:
    return records / (time / _HOUR)


def _null_share(
    band: NullBand, min_batches: int, column: str, batch: Profile, before: Sequence[Profile]
) -> tuple[Standing, str]:
    shares = [each.nulls[column] / each.rows for each in before if each.rows and column in each.nulls]
    if len(shares) < min_batches:
        return Standing.NOT_COMPARED, _too_few(len(shares), min_batches)
    if not batch.rows or column not in batch.nulls:
        return Standing.NOT_COMPARED, "not compared: the batch has no row"
    share, usual = batch.nulls[column] / batch.rows, median(shares)
    text = f"{show_share(share)}, usually {show_share(usual)}; it may differ by {show_share(band.tolerance)}"
    return Standing.USUAL if abs(share - usual) <= band.tolerance else Standing.UNUSUAL, text


def _too_few(batches: int, min_batches: int) -> str:
    return f"not compared: {batches} earlier batches, and at least {min_batches} are needed"
