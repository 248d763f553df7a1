"""The verdict of the gate, as a value: kept in the ledger, shown on the quality page, and written to the log.

With it the comparison of a head batch with the committed ones before it: volume and share of NULL. Pure.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from statistics import median
from typing import Any, Self

from offset_ledger.base.units import show_share, show_span
from offset_ledger.model.batch import Profile
from offset_ledger.pipeline_file.pipeline import History, Unusual, VolumeBand
from offset_ledger.steps.validate.suite import SuiteAction

_OBSERVED_LENGTH = 200
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


@dataclass(frozen=True, slots=True)
class ExpectationResult:
    """The outcome of an expectation, of the check of a column's texts (``input``), or of a constraint (``conflict``).

    ``quarantine_sql`` selects ``_partition, _offset`` of each failing row; only a failed quarantine expectation has it.
    ``reasons_sql`` also selects the ``reason`` of each, where they have reasons of their own. Execute them without
    parameters, so that percent signs stay as they are. ``exception`` is the message of an exception inside Great
    Expectations; the expectation has then failed, whatever else the result says.
    """

    line: int
    type: str
    columns: tuple[str, ...]
    action: SuiteAction
    text: str
    success: bool
    evaluated: int | None = None
    unexpected: int | None = None
    unexpected_percent: float | None = None
    observed: str | None = None
    exception: str | None = None
    quarantine_sql: str | None = None
    reasons_sql: str | None = None

    @property
    def rejects(self) -> bool:
        """Return whether this alone rejects the batch; rows that no query selects cannot be quarantined."""
        unnamed = self.action is SuiteAction.QUARANTINE and self.quarantine_sql is None
        return not self.success and (self.action is SuiteAction.REJECT or unnamed)

    @property
    def summary(self) -> str:
        """The verdict in one line: the expectation and what was observed instead."""
        if self.exception is not None:
            outcome = f"Great Expectations raised: {self.exception}"
        elif self.unexpected is not None and self.evaluated is not None:
            outcome = f"{self.unexpected} of {self.evaluated} rows fail"
        else:
            outcome = f"observed {'no value' if self.observed is None else self.observed}"
        return f"{self.text}: {outcome}"

    @property
    def note(self) -> str | None:
        """The summary of a failure that rejects nothing; None if there is none."""
        if self.quarantine_sql is not None:
            return f"quarantine: {self.summary}"
        return f"warning: {self.summary}" if not self.success and self.action is SuiteAction.WARN else None


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """The decision of the gate about one staging table, and the reasons.

    ``rows`` are the rows that were validated, ``deleted`` the delete markers (not validated), ``refused`` the records
    that the decoder refused, ``quarantined`` the rows (each once) that failed quarantine expectations. ``reasons`` say
    why the batch is rejected, and are empty if it is not; ``notes`` are failures that reject nothing. ``gx_result`` is
    Great Expectations' own result, for the quality page; it is not part of :meth:`to_json`.
    """

    success: bool
    findings: tuple[ExpectationResult, ...]
    rows: int
    deleted: int
    refused: int
    quarantined: int
    max_quarantined_share: float
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    seconds: float
    suite: str | None = None
    suite_sha256: str | None = None
    gx_version: str | None = None
    gx_result: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    history: tuple[Comparison, ...] = ()

    @property
    def quarantined_share(self) -> float:
        """The refused and quarantined records as a share of all records of the batch."""
        return quarantined_share(self.rows, self.deleted, self.refused, self.quarantined)

    @property
    def quarantines(self) -> tuple[ExpectationResult, ...]:
        """The findings whose rows go to quarantine, in the order of the suite."""
        return tuple(finding for finding in self.findings if finding.quarantine_sql is not None)

    def compared(self, history: Sequence[Comparison]) -> Self:
        """Return this verdict after the comparison with recent batches: the unusual rejects or warns by its rule."""
        unusual = [each for each in history if each.standing is Standing.UNUSUAL]
        reasons = (*self.reasons, *(each.text for each in unusual if each.action is Unusual.REJECT))
        notes = (*self.notes, *(f"warning: {each.text}" for each in unusual if each.action is Unusual.WARN))
        return replace(self, success=not reasons, reasons=reasons, notes=notes, history=tuple(history))

    def to_json(self) -> str:
        """The verdict as JSON that Postgres accepts as jsonb."""
        fields = {key: value for key, value in asdict(self).items() if key != "gx_result"}
        return json.dumps(fields | {"quarantined_share": self.quarantined_share}, allow_nan=False)


def quarantined_share(rows: int, deleted: int, refused: int, quarantined: int) -> float:
    """The refused and quarantined records as a share of all records; 0 if there are none."""
    return (refused + quarantined) / max(rows + deleted + refused, 1)


def observed_text(value: Any) -> str | None:
    """An observed value of any type as short text: the values of a whole column do not belong in a ledger."""
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= _OBSERVED_LENGTH else f"{text[: _OBSERVED_LENGTH - 1]}…"


def compare(rule: History, batch: Profile, before: Sequence[Profile]) -> tuple[Comparison, ...]:
    """Compare each measure of the rule: usual, unusual, or not compared and why.

    ``before`` are the committed head batches before this one, newest first, up to ``rule.batches`` + 1: the time that
    a batch covers begins with the batch before it.
    """
    comparisons: list[Comparison] = []
    if rule.volume is not None:
        comparisons.append(_volume(rule.volume, rule.min_batches, batch, before[: rule.batches + 1]))
    if rule.null_share is not None:
        band, recent = rule.null_share, before[: rule.batches]
        for column in band.columns or sorted(batch.nulls):
            shares = [each.nulls[column] / each.rows for each in recent if each.rows and column in each.nulls]
            standing, measure = Standing.NOT_COMPARED, f"share of NULL in {column}"
            if len(shares) < rule.min_batches:
                text = _too_few(len(shares), rule.min_batches)
            elif not batch.rows or column not in batch.nulls:
                text = "not compared: the batch has no row"
            else:
                share, usual, by = batch.nulls[column] / batch.rows, median(shares), band.tolerance
                standing = Standing.USUAL if abs(share - usual) <= by else Standing.UNUSUAL
                text = f"{show_share(share)}, usually {show_share(usual)}; it may differ by {show_share(by)}"
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


def _too_few(batches: int, min_batches: int) -> str:
    return f"not compared: {batches} earlier batches, and at least {min_batches} are needed"
