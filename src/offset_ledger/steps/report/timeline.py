"""A pipeline over time: read from the ledger, its batches, its rules and its quarantine as values, and their pages."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from offset_ledger.model.states import State
from offset_ledger.pipeline_file.names import DAILY_FOLDER
from offset_ledger.postgres.ledger.batches import open_head
from offset_ledger.postgres.ledger.database import Session, named_sql, rows, transaction
from offset_ledger.steps.report.render import pipeline_folder, render, write
from offset_ledger.steps.validate.verdict import quarantined_share


@dataclass(frozen=True, slots=True)
class ValidatedBatch:
    """One validated batch.

    ``reasons`` counts what its commit put into quarantine, by reason; ``newest`` is the latest record timestamp.
    """

    batch_id: int
    kind: str
    state: str
    validated_at: datetime
    ended_at: datetime | None
    records: int
    newest: datetime | None
    verdict: Mapping[str, Any]
    reasons: Mapping[str, int] = field(default_factory=dict)

    @property
    def quarantined(self) -> int:
        """Records that the decoder refused and rows that failed quarantine expectations."""
        return int(self.verdict.get("refused", 0)) + int(self.verdict.get("quarantined", 0))

    @property
    def committed(self) -> int:
        """Records that it committed to the table, those that changed nothing there included."""
        rows, deleted, failed = (int(self.verdict.get(key, 0)) for key in ("rows", "deleted", "quarantined"))
        return rows + deleted - failed if self.state == "committed" else 0

    @property
    def share(self) -> float:
        """The quarantined records as a share of its records."""
        counts = (int(self.verdict.get(key, 0)) for key in ("rows", "deleted", "refused", "quarantined"))
        return quarantined_share(*counts)

    @property
    def passed(self) -> bool:
        """Return whether it passed the gate, without an approval."""
        return bool(self.verdict.get("success", True))

    @property
    def outcome(self) -> str:
        """The state in one word; ``approved`` is a batch that a person approved after the gate had rejected it."""
        return "approved" if self.state in ("committed", "validated") and not self.passed else self.state

    @property
    def age(self) -> float | None:
        """Seconds from its newest record to its commit."""
        if self.state != "committed" or self.ended_at is None or self.newest is None:
            return None
        return max((self.ended_at - self.newest).total_seconds(), 0.0)

    @property
    def findings(self) -> Sequence[Mapping[str, Any]]:
        """The expectations with their results."""
        findings: Sequence[Mapping[str, Any]] = self.verdict.get("findings", ())
        return findings


@dataclass(frozen=True, slots=True)
class RuleTimeline:
    """One expectation over the batches that it validated. ``passed`` is one boolean a batch, oldest first."""

    text: str
    type: str
    action: str
    passed: tuple[bool, ...]
    evaluated: int
    failing: int
    last_failed: int | None

    @property
    def pass_rate(self) -> float:
        """The share of batches that passed."""
        return sum(self.passed) / len(self.passed)


@dataclass(frozen=True, slots=True)
class Freshness:
    """The latest committed record timestamp: of all partitions, and of the partition that is furthest behind."""

    newest: datetime | None = None
    every_partition: datetime | None = None
    max_publish_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Timeline:
    """Validated batches of a pipeline, newest first.

    ``waiting`` is the rejected head batch that needs approval, whether it is among them or older.
    """

    pipeline: str
    batches: tuple[ValidatedBatch, ...]
    freshness: Freshness
    waiting: int | None = None

    @property
    def committed(self) -> tuple[ValidatedBatch, ...]:
        """The batches whose rows are in the table."""
        return tuple(each for each in self.batches if each.state == "committed")

    @property
    def share(self) -> float:
        """The quarantined records as a share of the records of the committed batches."""
        records = sum(each.records for each in self.committed)
        return sum(each.quarantined for each in self.committed) / max(records, 1)

    @property
    def reasons(self) -> dict[str, int]:
        """The quarantined records of the committed batches by reason, the most frequent first."""
        total: Counter[str] = Counter()
        for each in self.committed:
            total.update(each.reasons)
        return dict(total.most_common())

    @property
    def rules(self) -> tuple[RuleTimeline, ...]:
        """Each expectation that validated one of the batches, in the order of the newest suite, older ones last."""
        by_rule: dict[tuple[str, str, str], list[tuple[int, Mapping[str, Any]]]] = {}
        for batch in self.batches:
            for finding in batch.findings:
                key = (str(finding["text"]), str(finding["type"]), str(finding["action"]))
                by_rule.setdefault(key, []).append((batch.batch_id, finding))
        return tuple(
            RuleTimeline(
                *key,
                passed=tuple(bool(each["success"]) for _, each in reversed(results)),
                evaluated=sum(each["evaluated"] or 0 for _, each in results),
                failing=sum(each["unexpected"] or 0 for _, each in results),
                last_failed=next((batch_id for batch_id, each in results if not each["success"]), None),
            )
            for key, results in by_rule.items()
        )

    def metrics(self) -> dict[str, Any]:
        """The metrics as JSON values, for asset events and for --json."""
        return {
            "batches": dict(Counter(each.outcome for each in self.batches)),
            "records": sum(each.records for each in self.committed),
            "quarantined": sum(each.quarantined for each in self.committed),
            "quarantined_share": round(self.share, 6),
            "reasons": self.reasons,
            "failed_rules": {rule.text: rule.passed.count(False) for rule in self.rules if not all(rule.passed)},
            "newest_record": _text(self.freshness.newest),
            "every_partition_up_to": _text(self.freshness.every_partition),
            "waiting_batch": self.waiting,
        }


def _text(moment: datetime | None) -> str | None:
    return moment.astimezone(UTC).isoformat(timespec="seconds") if moment else None


def read_timeline(
    session: Session, pipeline: str, limit: int, since: datetime | None = None, until: datetime | None = None
) -> Timeline:
    """The newest ``limit`` validated batches that ended (or, if open, were validated) in ``[since, until)``."""
    with transaction(session) as cursor:
        filters = {"pipeline": pipeline, "limit": limit, "since": since, "until": until}
        batches = tuple(ValidatedBatch(**row) for row in cursor.run("report/timeline", **filters))
        freshness = Freshness(**cursor.run("report/freshness", pipeline=pipeline).one())
        head = open_head(cursor, pipeline)
        rejected = head.batch_id if head and head.state is State.REJECTED else None
        return Timeline(pipeline, batches, freshness, rejected)


def decisions(session: Session, batch_id: int) -> list[dict[str, str]]:
    """The decisions of people about the batch: what, who, when and why, oldest first."""
    decided = rows(session, named_sql("report/decisions"), {"batch_id": batch_id})
    return [{**row, "at": row["at"].isoformat(timespec="seconds")} for row in decided]


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
    days = sorted(page.stem for page in pages.glob("????-??-??.html"))
    before = max((other for other in days if other < day.isoformat()), default=None)
    linked = {each.pipeline for each in pipelines if (folder / each.pipeline / "index.html").is_file()}
    values = {"day": day.isoformat(), "pipelines": pipelines, "before": before, "linked": linked}
    return write(pages / f"{day.isoformat()}.html", render("daily.html.jinja", **values))
