"""The standing of a pipeline by its ledger and its broker: its partitions, and the most severe condition. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from offset_ledger.base.units import show_duration, show_share
from offset_ledger.model.retention import UNSIZED, Retention, SizedLog, UnreadLog, earliest
from offset_ledger.model.snapshot import PartitionSnapshot, TopicSnapshot
from offset_ledger.pipeline_file.pipeline import Pipeline

COUNTED = 10_000  # quarantined records of a pipeline are counted up to here
_SOON = timedelta(hours=24)
_LONG_AGO = timedelta(days=366)

LedgerRow = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BrokerSnapshot:
    """A topic as the broker described it, and when; ``logs`` by partition, where the size of the log matters."""

    snapshot: TopicSnapshot
    retention: Retention
    taken_at: datetime
    logs: Mapping[int, SizedLog] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LedgerPartition:
    """The ledger's state of a partition; the log as the newest batch saw it.

    ``complete_to`` is the newest record timestamp of the last committed range that had one. Nothing from the
    cursor on was compacted before ``unread_since``; None where the pipeline does not delete by tombstones.
    """

    partition: int
    cursor: int
    log_start: int | None = None
    last_stable: int | None = None
    high_watermark: int | None = None
    seen_at: datetime | None = None
    complete_to: datetime | None = None
    unread_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Position:
    """The position of one partition, in offsets.

    lag: stable offsets of the log that are not committed, never below 0; None while the broker does not say.
    lost: offsets that were deleted before they were committed; they are no lag. cut_off: the log ends below the
    cursor, or is that of a recreated topic. gone_after: when retention may delete the record at the cursor.
    tombstones_after: when compaction may remove a tombstone above it.
    """

    partition: int
    cursor: int | None
    log_start: int | None
    last_stable: int | None
    high_watermark: int | None
    lag: int | None = None
    lost: int = 0
    complete_to: datetime | None = None
    gone_after: datetime | None = None
    tombstones_after: datetime | None = None
    cut_off: bool = False


def log_of(
    known: LedgerPartition | None, live: PartitionSnapshot | None, broker: BrokerSnapshot | None
) -> tuple[int, int, int, datetime] | None:
    """Return log start, last stable offset, high watermark and their time, of the broker or else the newest batch.

    None if neither knows them.

    A snapshot that is older than the newest batch is not used if the batch moved the cursor beyond its high watermark.
    """
    if live and broker:
        seen_later = known and known.seen_at is not None and known.seen_at > broker.taken_at
        if not (known and seen_later and known.cursor > live.high_watermark):
            return live.log_start, live.last_stable, live.high_watermark, broker.taken_at
    if known is None or known.log_start is None or known.last_stable is None or known.high_watermark is None:
        return None
    assert known.seen_at is not None
    return known.log_start, known.last_stable, known.high_watermark, known.seen_at


def position(
    partition: int, known: LedgerPartition | None, live: PartitionSnapshot | None, broker: BrokerSnapshot | None
) -> Position:
    """Return where a partition stands; without the broker's answer, neither lag nor deadlines are known."""
    cursor, newest = (known.cursor, known.complete_to) if known else (None, None)
    log = log_of(known, live, broker)
    if log is None:
        return Position(partition, cursor, None, None, None, complete_to=newest)
    log_start, last_stable, high_watermark, as_of = log
    log_ends = log_start, last_stable, high_watermark
    start = log_start if cursor is None else cursor
    if start > high_watermark:  # the log was truncated, and its records below the cursor may be new
        return Position(partition, cursor, *log_ends, lag=0 if live else None, cut_off=True)
    lag = max(0, last_stable - max(start, log_start))
    # A producer's clock may run ahead: nothing is complete up to a time in the future.
    complete_to = as_of if lag == 0 else min(newest, as_of) if newest else None
    lost = max(0, log_start - start)
    if broker is None or live is None:
        return Position(partition, cursor, *log_ends, lost=lost, complete_to=complete_to)
    deadline, tombstones = None, None
    if lag:
        share = lag / (high_watermark - log_start)
        unread = UnreadLog(complete_to, broker.logs.get(partition, UNSIZED), share)
        deadline = earliest([unread], broker.retention, as_of)
        if known and known.unread_since and broker.retention.tombstones is not None:
            tombstones = known.unread_since + broker.retention.tombstones
    return Position(partition, cursor, *log_ends, lag, lost, complete_to, deadline.at if deadline else None, tombstones)


def positions(known: Iterable[LedgerPartition], broker: BrokerSnapshot | None) -> tuple[Position, ...]:
    """Return the position of every partition that the ledger or the broker knows, in order."""
    ledger = {each.partition: each for each in known}
    live = {each.partition: each for each in broker.snapshot.partitions} if broker else {}
    return tuple(position(p, ledger.get(p), live.get(p), broker) for p in sorted({*ledger, *live}))


@dataclass(frozen=True, slots=True)
class Totals:
    """A pipeline's partitions together; None if it is not known for each of them."""

    partitions: int
    lag: int | None
    lost: int
    complete_to: datetime | None
    gone_after: datetime | None
    tombstones_after: datetime | None = None
    cut_off: bool = False

    def dated_long_ago(self, now: datetime) -> bool:
        """Return whether there is lag, and the records before it are dated more than a year ago.

        Such timestamps say when something happened, not when it was published, so they say nothing about how long
        records have been waiting.
        """
        return bool(self.lag) and self.complete_to is not None and now - self.complete_to > _LONG_AGO


def totals(shown: Sequence[Position]) -> Totals:
    """Return sums, and the earliest of the times: a pipeline is only as complete as its least complete partition."""
    lags = [each.lag for each in shown if each.lag is not None]
    complete = [each.complete_to for each in shown if each.complete_to]
    return Totals(
        partitions=len(shown),
        lag=sum(lags) if shown and len(lags) == len(shown) else None,
        lost=sum(each.lost for each in shown),
        complete_to=min(complete) if shown and len(complete) == len(shown) else None,
        gone_after=min((each.gone_after for each in shown if each.gone_after), default=None),
        tombstones_after=min((each.tombstones_after for each in shown if each.tombstones_after), default=None),
        cut_off=any(each.cut_off for each in shown),
    )


@dataclass(frozen=True, slots=True)
class BrokerAnswer:
    """The state of a topic now: a snapshot, or why there is none; ``gone`` if it does not exist.

    ``refused``: the broker did answer, with an error. ``registry_problem``: why the registry of its schemas is silent.
    """

    snapshot: BrokerSnapshot | None = None
    problem: str | None = None
    gone: bool = False
    refused: bool = False
    registry_problem: str | None = None


@dataclass(frozen=True, slots=True)
class Ledger:
    """The ledger's state of some pipelines, by name, or why it could not be read.

    ``pipelines`` are rows of ``standing/pipelines.sql``; a pipeline that was never planned has none. ``retired`` says
    who has settled that a topic is gone.
    """

    pipelines: Mapping[str, LedgerRow] = field(default_factory=dict)
    partitions: Mapping[str, Sequence[LedgerPartition]] = field(default_factory=dict)
    retired: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None


class Level(StrEnum):
    """The colour of a condition, from the least to the most severe one."""

    GOOD = "good"
    PLAIN = "plain"
    WARN = "warn"
    BAD = "bad"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Condition:
    """A pipeline's condition in a few words; ``state`` is the word for it in ``offset-ledger status``."""

    level: Level
    text: str
    state: str

    @property
    def severity(self) -> int:
        """The higher, the more severe."""
        return tuple(Level).index(self.level)


@dataclass(frozen=True, slots=True)
class Standing:
    """The standing of a pipeline: ``problem`` is what the next plan stops at, ``question`` waits for a person.

    ``silence``: why nobody may be staging the batch that is staging.
    """

    partitions: tuple[Position, ...]
    totals: Totals
    recreated: bool
    problem: str | None
    question: str | None
    retired: str | None
    silence: str | None = None
    condition: Condition = Condition(Level.UNKNOWN, "its ledger cannot be read", "not known")


def assess(pipeline: Pipeline, ledger: Ledger, topic: BrokerAnswer, now: datetime) -> Standing:
    """Return where the pipeline stands by its ledger and its broker's answer."""
    row, broker = ledger.pipelines.get(pipeline.name), topic.snapshot
    topic_id = row["topic_id"] if row else None
    # The cursors of a topic that was recreated say nothing about its log; one that is gone has no log.
    recreated = bool(broker and topic_id and broker.snapshot.topic_id != topic_id)
    known = () if recreated else ledger.partitions.get(pipeline.name, ())
    if topic.gone:
        known = [LedgerPartition(each.partition, each.cursor) for each in known]
    shown = positions(known, broker) if ledger.problem is None else ()
    if recreated:
        shown = tuple(replace(each, complete_to=None, cut_off=True) for each in shown)
    whole = totals(shown)
    retired = ledger.retired.get(pipeline.name) if topic.gone else None
    problem = "the log ends below a cursor" if whole.cut_off else None
    if recreated:
        problem = "the topic was recreated"
    elif whole.lost and topic_id:
        problem = f"{whole.lost:,} offsets were deleted before they were read"
    standing = Standing(shown, whole, recreated, problem, question(row), retired, silence(row, now))
    return standing if ledger.problem else replace(standing, condition=_condition(pipeline, row, standing, topic, now))


def _condition(
    pipeline: Pipeline, row: LedgerRow | None, standing: Standing, topic: BrokerAnswer, now: datetime
) -> Condition:
    if standing.retired:
        return Condition(Level.PLAIN, "retired: the topic is gone", "retired")
    if topic.gone:
        text, state = ("the topic is gone", "not known") if row else ("the topic does not exist", "not started")
        return Condition(Level.BAD, text, state)
    if topic.snapshot is None:
        away = "its topic cannot be read" if topic.refused else "Kafka does not answer"
        return Condition(Level.UNKNOWN, away, "not known")
    if standing.problem:
        return Condition(Level.BAD, standing.problem, "blocked")
    if topic.registry_problem:
        return Condition(Level.UNKNOWN, "the schema registry does not answer", "not known")
    if standing.question:
        return Condition(Level.WARN, standing.question, "blocked")
    progress = _progress(pipeline, row, standing.totals)
    if standing.silence:
        progress = replace(progress, text=f"{progress.text}; no sign of its attempt")
    warning = _deadline_warning(standing.totals, topic.snapshot.retention, now)
    return replace(progress, level=Level.WARN, text=warning) if warning else progress


def question(row: LedgerRow | None) -> str | None:
    """Return the decision that the pipeline waits for; None if there is none."""
    if row and row["state"] == "rejected":
        return f"batch {row['batch_id']} is rejected and requires a decision"
    if row and row["state"] == "staging" and row["late"]:
        return f"batch {row['batch_id']} may lack tombstones and requires a decision"
    return "a question requires an answer" if row and row["question"] else None


def silence(row: LedgerRow | None, now: datetime) -> str | None:
    """Return since when the open batch's attempt has no session in Postgres, and who goes on; None if it has one."""
    if row is None or not row["silent_since"]:
        return None
    seconds = (now - row["silent_since"]).total_seconds()
    return (
        f"no sign of the attempt at batch {row['batch_id']} for {show_duration(seconds)}, and no session of it in "
        f"Postgres; the next try of its task goes on, or run: offset-ledger ingest {row['pipeline']}"
    )


def _deadline_warning(whole: Totals, retention: Retention, now: datetime) -> str | None:
    if whole.gone_after is not None and whole.gone_after - now < _SOON:
        close = whole.gone_after > now
        return "retention is close to the cursor" if close else "retention may delete unread records at any moment"
    period = min(_SOON, (retention.tombstones or timedelta(0)) / 3)
    if whole.tombstones_after is not None and whole.tombstones_after - now < period:
        close = whole.tombstones_after > now
        return (
            "compaction is close to unread tombstones"
            if close
            else "compaction may remove unread tombstones at any moment"
        )
    return None


def _progress(pipeline: Pipeline, row: LedgerRow | None, whole: Totals) -> Condition:
    if row is None:
        return Condition(Level.PLAIN, "nothing was planned yet", "not started")
    if row["batch_id"] is not None:
        return Condition(Level.PLAIN, f"batch {row['batch_id']} is {row['state']}", f"batch {row['state']}")
    if whole.lag is None:
        return Condition(Level.UNKNOWN, "its lag is not known", "not known")
    if whole.lag:
        return Condition(Level.PLAIN, "behind", "behind")
    waiting, more = row["quarantined"], "+" if row["quarantined"] == COUNTED else ""
    text = f"up to date, {waiting:,}{more} in quarantine" if waiting else "up to date"
    share, limit = row["judged_share"] if row["judged_committed"] else None, pipeline.quality.max_quarantined_share
    if share is None or share <= limit:
        return Condition(Level.GOOD, text, "up to date")
    approved = ", and was approved" if row["judged_approved"] else ""
    refused = f"batch {row['judged_batch']} refused {show_share(share)} (limit {show_share(limit)}){approved}"
    return Condition(Level.PLAIN, f"{text}; {refused}", "up to date")
