"""The metrics that the exporter exports: names, kinds, help and labels. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PREFIX = "offset_ledger_"
_OF_PIPELINE = ("pipeline", "topic")


@dataclass(frozen=True, slots=True)
class Family:
    """A metric; the samples of a pipeline have its name and its topic as labels, and perhaps more."""

    name: str
    help: str
    labels: tuple[str, ...] = _OF_PIPELINE
    kind: Literal["gauge", "counter"] = "gauge"

    @property
    def exposed(self) -> str:
        """The name as Prometheus has it."""
        return f"{PREFIX}{self.name}" + ("_total" if self.kind == "counter" else "")


FAMILIES = (
    Family("build_info", "The version of offset-ledger that exports.", ("version",)),
    Family("up", "Whether the server of an Airflow connection answered: kafka or postgres.", ("server", "connection")),
    Family("pipeline_file_mistakes", "Mistakes in the pipeline files; their pipelines have no other series.", ()),
    Family("pipeline_info", "A pipeline and its table.", (*_OF_PIPELINE, "table")),
    Family("topic_readable", "Whether the broker described the topic; without that the series of its log are absent."),
    Family("topic_retired", "Whether a person has settled that the topic is gone; its topic_readable is absent then."),
    Family("log_changed", "Whether the topic was recreated, or its log ends below a cursor: the pipeline stops."),
    Family("lag_offsets", "Offsets up to the last stable offset that are not committed.", (*_OF_PIPELINE, "partition")),
    Family("lag_seconds", "The longest that an unread record can have waited, by record timestamps; 0 without lag."),
    Family("lost_offsets", "Offsets that retention deleted before they were read."),
    Family("unread_expiry_timestamp_seconds", "When retention may delete the oldest unread record."),
    Family("newest_record_timestamp_seconds", "Timestamp of the newest committed record."),
    Family("last_commit_timestamp_seconds", "When the cursors last moved."),
    Family("open_batch_timestamp_seconds", "When the open head batch was planned.", (*_OF_PIPELINE, "state")),
    Family("rejected_batches", "Batches that the gate rejected and nobody has decided about."),
    Family("open_questions", "Questions to people without an answer."),
    Family("quarantined_records", "Records in quarantine, neither fixed nor dismissed; counted up to 10,000."),
    Family("waiting_dead_letters", "Dead letters that are not delivered yet."),
    Family("audit_findings", "Findings of the newest audit of the topic.", (*_OF_PIPELINE, "severity")),
    Family("last_batch_step_seconds", "How long each step of the newest head batch took.", (*_OF_PIPELINE, "step")),
    Family("offsets", "Committed offsets by what became of them.", (*_OF_PIPELINE, "disposition"), "counter"),
)
