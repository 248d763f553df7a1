"""The samples of a pipeline, from what ledger and broker say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

import pytest

from offset_ledger.interfaces.exporter.collector import FAMILIES, LedgerReading, Sample, pipeline_samples
from offset_ledger.model.snapshot import PartitionSnapshot
from offset_ledger.operations.status.pipeline import BrokerAnswer, BrokerSnapshot, Ledger, LedgerPartition
from tests.fixtures.staged import a_pipeline
from tests.unit.operations.status.snapshots import HOUR, NOW, ROW, a_snapshot

PIPELINE = a_pipeline()
HEAD = {**ROW, "batch_id": 7, "state": "rejected", "planned_at": NOW - HOUR, "quarantined": 3}
WAITING = {
    "moved_at": NOW - 2 * HOUR, "newest": NOW - 3 * HOUR, "stage": 4.0, "validate": None, "commit": 1.5,
    "rejected": 1, "questions": 2, "dead_letters": 4,
}  # fmt: skip
PARTITION = LedgerPartition(0, 100, 0, 100, 100, NOW - 2 * HOUR, NOW - 3 * HOUR)
READ = LedgerReading(Ledger({"orders": HEAD}, {"orders": [PARTITION]}), {"orders": WAITING},
    {"orders": {"inserted": 90, "gap": 10}}, {"orders": {"warning": 2}})  # fmt: skip
TOPIC = a_snapshot(PartitionSnapshot(0, 20, 300, 340, 1))

Found = dict[tuple[str, ...], float]


def found(samples: Iterable[Sample]) -> Found:
    return {(each.family, *each.labels.values()): each.value for each in samples}


def of(ledger: LedgerReading, topic: BrokerSnapshot | None) -> Found:
    return found(pipeline_samples(PIPELINE, ledger, BrokerAnswer(topic), NOW))


def condition(level: str, state: str) -> Found:
    return {("condition", level, state): 1.0}


DECISION, SILENT = condition("warn", "blocked"), condition("unknown", "not known")


OF_FILE = {("pipeline_info", "public.orders"): 1.0}
OF_LEDGER = {
    ("topic_retired",): 0.0,
    ("open_batch_timestamp_seconds", "rejected"): (NOW - HOUR).timestamp(),
    ("last_commit_timestamp_seconds",): (NOW - 2 * HOUR).timestamp(),
    ("newest_record_timestamp_seconds",): (NOW - 3 * HOUR).timestamp(),
    ("rejected_batches",): 1,
    ("open_questions",): 2,
    ("quarantined_records",): 3,
    ("waiting_dead_letters",): 4,
    ("offsets", "inserted"): 90,
    ("offsets", "gap"): 10,
    ("last_batch_step_seconds", "stage"): 4.0,
    ("last_batch_step_seconds", "commit"): 1.5,
    ("audit_findings", "error"): 0,
    ("audit_findings", "warning"): 2,
}
OF_LOG = {
    ("lag_offsets", "0"): 200,
    ("log_changed",): 0.0,
    ("lost_offsets",): 0,
    ("unread_expiry_timestamp_seconds",): (NOW - 3 * HOUR + timedelta(days=7)).timestamp(),
    ("lag_seconds",): 3 * 3600.0,
}


def test_a_pipeline_that_is_behind() -> None:
    assert of(READ, TOPIC) == {**OF_FILE, **DECISION, ("topic_readable",): 1.0, **OF_LEDGER, **OF_LOG}


def test_a_server_that_is_away_makes_its_series_absent_and_no_other() -> None:
    assert of(READ, None) == {**OF_FILE, **SILENT, ("topic_readable",): 0.0, **OF_LEDGER}
    assert of(LedgerReading(Ledger(problem="away")), TOPIC) == {**OF_FILE, **SILENT, ("topic_readable",): 1.0}


def test_a_topic_that_is_gone_is_unreadable_until_it_is_retired() -> None:
    gone = BrokerAnswer(problem="no such topic", gone=True)
    retired = replace(READ, ledger=replace(READ.ledger, retired={"orders": "ann: closed"}))
    unreadable = {key: value for key, value in of(READ, None).items() if key not in SILENT}
    assert found(pipeline_samples(PIPELINE, READ, gone, NOW)) == {**unreadable, **condition("bad", "not known")}
    ages = {("last_commit_timestamp_seconds",), ("newest_record_timestamp_seconds",)}
    left = {**OF_FILE, **{key: value for key, value in OF_LEDGER.items() if key not in ages}}
    settled = {**left, **condition("plain", "retired"), ("topic_retired",): 1.0}
    assert found(pipeline_samples(PIPELINE, retired, gone, NOW)) == settled
    assert of(retired, None) == of(READ, None)  # its broker is away
    assert of(retired, TOPIC) == of(READ, TOPIC)  # it exists again


def test_a_pipeline_that_has_planned_nothing_lags_by_its_whole_log() -> None:
    assert of(LedgerReading(Ledger()), TOPIC) == {
        **OF_FILE, **condition("plain", "not started"), ("topic_readable",): 1.0, ("lag_offsets", "0"): 280,
        ("log_changed",): 0.0, ("lost_offsets",): 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("topic", "lag"),
    [
        (a_snapshot(PartitionSnapshot(0, 0, 300, 300, 1), topic_id="t2"), 300),
        (a_snapshot(PartitionSnapshot(0, 0, 60, 60, 1)), 0),
    ],
    ids=["recreated", "truncated"],
)
def test_a_log_that_is_not_the_one_of_the_cursors_has_changed(topic: BrokerSnapshot, lag: int) -> None:
    of_log = {key: value for key, value in of(READ, topic).items() if key not in OF_LEDGER and key not in OF_FILE}
    changed = {("log_changed",): 1.0, ("lost_offsets",): 0, ("lag_offsets", "0"): lag}
    assert of_log == {**condition("bad", "blocked"), ("topic_readable",): 1.0, **changed}


def test_offsets_that_retention_deleted_unread_are_lost() -> None:
    assert of(READ, a_snapshot(PartitionSnapshot(0, 130, 300, 300, 1)))[("lost_offsets",)] == 30


def test_without_lag_nothing_waits_and_nothing_expires() -> None:
    drained = of(READ, a_snapshot(PartitionSnapshot(0, 0, 100, 100, 1)))
    assert (drained[("lag_offsets", "0")], drained[("lag_seconds",)]) == (0, 0.0)
    assert ("unread_expiry_timestamp_seconds",) not in drained


def test_records_that_are_dated_long_ago_do_not_say_how_long_they_have_waited() -> None:
    old = LedgerPartition(0, 100, 0, 100, 100, NOW, NOW - timedelta(days=4000))
    assert ("lag_seconds",) not in of(replace(READ, ledger=replace(READ.ledger, partitions={"orders": [old]})), TOPIC)


def test_every_sample_has_the_labels_of_its_family() -> None:
    labels = {family.name: set(family.labels) - {"pipeline", "topic"} for family in FAMILIES}
    made = list(pipeline_samples(PIPELINE, READ, BrokerAnswer(TOPIC), NOW))
    assert {each.family: set(each.labels) for each in made} == {each.family: labels[each.family] for each in made}
    assert {family.name for family in FAMILIES} - {each.family for each in made} == {
        "build_info",
        "up",
        "pipeline_file_mistakes",
    }
