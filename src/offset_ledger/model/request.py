"""The requests to the ingest DAG and to the redrive DAG, and the trigger forms that they come from."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from offset_ledger.errors import ContradictoryRequest
from offset_ledger.model.moments import zoned
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.states import BatchKind

OUTCOME = "outcome"  # the key under which the task plan says why it skipped
BUSY, NOTHING_NEW = "busy", "nothing new"


class RunAction(StrEnum):
    """The action that a run is asked for."""

    NEXT = "next"
    WINDOW = "window"
    RANGES = "ranges"
    APPROVE = "approve"
    ABANDON = "abandon"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Request:
    """One request without contradictions. ``since`` and ``until`` bound record timestamps, ``limit`` is in offsets.

    ``scan`` asks for the window's late records too, ``fill`` for rows to be written again as the pipeline file reads
    their records now. ``topic`` is one of those that a pipeline file with several reads.
    """

    action: RunAction = RunAction.NEXT
    since: datetime | None = None
    until: datetime | None = None
    ranges: tuple[OffsetRange, ...] = ()
    limit: int | None = None
    dry_run: bool = False
    batch_id: int | None = None
    why: str | None = None
    scan: bool = False
    topic: str | None = None
    fill: bool = False

    @property
    def kind(self) -> BatchKind:
        """The kind of the batch it asks for."""
        kinds = {RunAction.WINDOW: BatchKind.BACKFILL, RunAction.RANGES: BatchKind.REPLAY}
        return kinds.get(self.action, BatchKind.HEAD)

    @property
    def key(self) -> dict[str, Any]:
        """The fields that distinguish this request from another of the same run; kept with the batch that it plans."""
        fields = {
            "action": str(self.action),
            "since": self.since.isoformat() if self.since else None,
            "until": self.until.isoformat() if self.until else None,
            "scan": self.scan,
            "fill": self.fill,
            "ranges": [[r.partition, r.from_offset, r.until_offset] for r in self.ranges],
            "limit": self.limit,
        }
        return {name: value for name, value in fields.items() if value}


Interval = tuple[datetime, datetime]

# The fields that an action needs, and others that it takes; each takes a topic and a reason too.
_FIELDS_OF: dict[RunAction, tuple[tuple[str, ...], tuple[str, ...]]] = {
    RunAction.NEXT: ((), ("limit", "dry_run")),
    RunAction.WINDOW: (("since", "until"), ("scan", "fill", "limit", "dry_run")),
    RunAction.RANGES: (("ranges",), ("fill", "limit", "dry_run")),
    RunAction.APPROVE: (("batch_id", "why"), ()),
    RunAction.ABANDON: (("batch_id", "why"), ()),
    RunAction.SKIP: (("why",), ()),
}
FIELDS = ("action", "topic", "since", "until", "scan", "fill", "ranges", "limit", "dry_run", "batch_id", "why")
_LINE = re.compile(r"\s*(\d+)\s*:\s*(\d+)\s*-\s*(\d+)\s*")


def parse_request(form: Mapping[str, Any], interval: Interval | None = None) -> Request:
    """The request of a trigger form; ``interval`` is the data interval of a backfill run and None for any other.

    A field that is absent, null or blank is not given.

    Raises:
        ContradictoryRequest: in one line, what does not fit and what would.
    """
    given = {name: value for name, value in form.items() if value is not None and value is not False}
    given = {name: value for name, value in given.items() if str(value).strip()}
    if unknown := sorted(set(given) - set(FIELDS)):
        raise ContradictoryRequest(f"{', '.join(unknown)} is no field of the form; the fields are {', '.join(FIELDS)}")
    try:
        action = RunAction(given.get("action", RunAction.NEXT))
    except ValueError:
        words = ", ".join(RunAction)
        raise ContradictoryRequest(f"action is {given['action']!r}; it is one of {words}") from None
    _check_fields(action, given, is_backfill=interval is not None)
    since, until = _moment("since", given), _moment("until", given)
    if interval is not None:
        action = RunAction.WINDOW
        since, until = (moment.astimezone(UTC) for moment in interval)
    ranges = parse_ranges(str(given["ranges"])) if "ranges" in given else ()
    dry_run, scan, fill = (bool(given.get(name, False)) for name in ("dry_run", "scan", "fill"))
    limit, batch_id = _whole("limit", given), _whole("batch_id", given)
    why, topic = (str(given[name]).strip() if name in given else None for name in ("why", "topic"))
    if since and until and since >= until:
        raise ContradictoryRequest(
            f"since {since.isoformat()} is not before until {until.isoformat()}; a window ends after it begins"
        )
    return Request(action, since, until, ranges, limit, dry_run, batch_id, why, scan, topic, fill)


def _check_fields(action: RunAction, given: Mapping[str, Any], is_backfill: bool) -> None:
    """A backfill run reads its data interval: a form can add a scan, a fill, a limit, a dry run and a reason."""
    if is_backfill:
        wrong = sorted(set(given) - {"action", "topic", "scan", "fill", "limit", "dry_run", "why"})
        if action not in (RunAction.NEXT, RunAction.WINDOW) or wrong:
            asked = " and ".join(wrong) or f"action {action}"
            takes = f"a backfill run reads its data interval and takes no {asked}"
            raise ContradictoryRequest(f"{takes}; trigger the DAG instead")
        return
    required, optional = _FIELDS_OF[action]
    if missing := [name for name in required if name not in given]:
        raise ContradictoryRequest(f"action {action} needs {' and '.join(missing)}; fill in what is missing")
    if extra := sorted(set(given) - {"action", "topic", "why", *required, *optional}):
        fitting = [str(other) for other, fields in _FIELDS_OF.items() if set(extra) <= {*fields[0], *fields[1]}]
        hint = f", or choose action {' or '.join(fitting)}" if fitting else ""
        raise ContradictoryRequest(f"action {action} takes no {' and no '.join(extra)}; clear it{hint}")


def parse_ranges(text: str) -> tuple[OffsetRange, ...]:
    """``partition:from-until`` of each line, or between commas; half-open, one range a partition.

    Raises:
        ContradictoryRequest: a part has another form, or two name the same partition.
    """
    by_partition: dict[int, OffsetRange] = {}
    for part in filter(str.strip, re.split(r"[,\n]", text)):
        match = _LINE.fullmatch(part)
        if match is None:
            raise ContradictoryRequest(f"{part.strip()!r} is no range; write partition:from-until, such as 0:1000-2000")
        partition, start, end = map(int, match.groups())
        if end <= start:
            raise ContradictoryRequest(f"range {part.strip()} is empty: its end {end} must be above its start {start}")
        if partition in by_partition:
            raise ContradictoryRequest(f"partition {partition} has two ranges; give one range for each partition")
        by_partition[partition] = OffsetRange(partition, start, end)
    return tuple(by_partition[partition] for partition in sorted(by_partition))


def _moment(name: str, given: Mapping[str, Any]) -> datetime | None:
    """The moment of a field in UTC, which is ISO 8601 with a zone; None where it is not given."""
    if name not in given:
        return None
    text = str(given[name])
    try:
        if moment := zoned(text):
            return moment.astimezone(UTC)
    except OverflowError:
        pass
    raise ContradictoryRequest(f"{name} is {text!r}; write ISO 8601 with a zone, such as 2013-01-01T00:00:00Z")


def _whole(name: str, given: Mapping[str, Any]) -> int | None:
    value = given.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not str(value).isdecimal() or int(value) < 1:
        raise ContradictoryRequest(f"{name} is {value!r}; write a whole number from 1")
    return int(value)


class QuarantineAction(StrEnum):
    """The action of a run of the redrive DAG on the records that it names."""

    REDRIVE = "redrive"
    DISMISS = "dismiss"
    UNDO = "undo_dismissal"


@dataclass(frozen=True, slots=True)
class QuarantineRequest:
    """A filled form without contradictions; moments are still text."""

    action: QuarantineAction
    partition: int | None = None
    offsets: tuple[int, ...] | None = None
    reason: str | None = None
    since: str | None = None
    limit: int | None = None
    why: str = ""


_NOT_FOR = {
    QuarantineAction.REDRIVE: ("partition", "offsets"),
    QuarantineAction.DISMISS: ("limit",),
    QuarantineAction.UNDO: ("limit",),
}


def parse_quarantine_request(form: Mapping[str, Any]) -> QuarantineRequest:
    """The request of a form; a field that is absent, null or blank is not given.

    Raises:
        ContradictoryRequest: in one line, what does not fit and what would.
    """
    given = {name: form[name] for name in form if form[name] is not None and str(form[name]).strip()}
    action = QuarantineAction(given.get("action", QuarantineAction.REDRIVE))
    if extra := [name for name in _NOT_FOR[action] if name in given]:
        raise ContradictoryRequest(f"action {action} takes no {' and no '.join(extra)}; clear it")
    if action is not QuarantineAction.REDRIVE and "why" not in given:
        raise ContradictoryRequest(f"action {action} needs why; it is kept with the decision")
    offsets = None
    if "offsets" in given:
        parts = [part for part in re.split(r"[\s,]+", given["offsets"]) if part]
        if wrong := next((part for part in parts if not re.fullmatch(r"[0-9]{1,18}", part)), None):
            raise ContradictoryRequest(
                f"{wrong!r} is no offset; write whole numbers with spaces between, such as 17 18"
            )
        offsets = tuple(map(int, parts))
    return QuarantineRequest(
        action,
        given.get("partition"),
        offsets,
        given.get("reason"),
        given.get("since"),
        given.get("limit"),
        str(given.get("why", "")).strip(),
    )
