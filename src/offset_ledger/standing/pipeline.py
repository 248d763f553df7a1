"""Where a pipeline stands: its partitions, and its condition in a few words, the most severe one that applies. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from offset_ledger.config.model import Pipeline
from offset_ledger.model.retention import Retention
from offset_ledger.standing.positions import BrokerSnapshot, LedgerPartition, Position, Totals, positions, totals
from offset_ledger.units import show_share

COUNTED = 10_000  # quarantined records of a pipeline are counted up to here
_SOON = timedelta(hours=24)

LedgerRow = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BrokerAnswer:
    """What is known of a topic now: a snapshot, or why there is none; ``gone`` where it does not exist.

    ``refused``: the broker did answer, with an error. ``registry_problem``: why the registry of its schemas is silent.
    """

    snapshot: BrokerSnapshot | None = None
    problem: str | None = None
    gone: bool = False
    refused: bool = False
    registry_problem: str | None = None


@dataclass(frozen=True, slots=True)
class Ledger:
    """What a ledger knows of some pipelines, by name, or why it could not be read.

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
    """Where a pipeline stands; ``problem`` is what the next plan stops at, ``question`` what people have to decide."""

    partitions: tuple[Position, ...]
    totals: Totals
    recreated: bool
    problem: str | None
    question: str | None
    retired: str | None
    condition: Condition = Condition(Level.UNKNOWN, "its ledger cannot be read", "not known")


def assess(pipeline: Pipeline, ledger: Ledger, topic: BrokerAnswer, now: datetime) -> Standing:
    """Return where the pipeline stands by what its ledger knows and its broker answered."""
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
    standing = Standing(shown, whole, recreated, _log_problem(recreated, whole, topic_id), question(row), retired)
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
    warning = _deadline_warning(standing.totals, topic.snapshot.retention, now)
    return replace(progress, level=Level.WARN, text=warning) if warning else progress


def _log_problem(recreated: bool, whole: Totals, topic_id: str | None) -> str | None:
    if recreated:
        return "the topic was recreated"
    if whole.lost and topic_id:
        return f"{whole.lost:,} offsets were deleted before they were read"
    return "the log ends below a cursor" if whole.cut_off else None


def question(row: LedgerRow | None) -> str | None:
    """Return what people have to decide before the pipeline goes on; None if nothing."""
    if row and row["state"] == "rejected":
        return f"batch {row['batch_id']} is rejected and requires a decision"
    if row and row["state"] == "staging" and row["late"]:
        return f"batch {row['batch_id']} may lack tombstones and requires a decision"
    return "a question requires an answer" if row and row["question"] else None


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
