"""Another log: a person lets a pipeline go on after its topic was recreated, or its log was cut off.

Both times the offsets of the cursors mean other records from some point on, so the partitions begin anew there, and
what the ledger has of the log before stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import get_connection
from offset_ledger.errors import StateConflict, TerminalError
from offset_ledger.kafka.client import KafkaClient, connect_kafka
from offset_ledger.ledger import batches, decisions, pipelines
from offset_ledger.ledger.completeness import check_not_whole
from offset_ledger.ledger.database import Cursor, Session, transaction
from offset_ledger.ledger.open import open_ledger
from offset_ledger.ledger.pipelines import planned_epochs, read_boundaries
from offset_ledger.model.batch import Batch, Origin
from offset_ledger.model.questions import Question, QuestionAnswer, QuestionKind
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.snapshot import Cursors, TopicSnapshot
from offset_ledger.model.states import State
from offset_ledger.model.truncation import Boundary, agrees, last_agreed


@dataclass(frozen=True, slots=True)
class LogChange:
    """What a person is asked, and where the partitions of the new log begin; nowhere if only a batch is in the way."""

    question: Question
    log_id: str
    cluster_id: str
    beginnings: tuple[Boundary, ...]
    cursors: Cursors

    def __str__(self) -> str:
        begins = ", ".join(f"{b.partition}: {b.offset}" for b in self.beginnings)
        return f"log {self.log_id}" + (f", which begins at {begins}" if begins else "; the next run plans anew")

    @property
    def starts(self) -> dict[int, int]:
        """Partition -> the offset it goes on at."""
        return {b.partition: b.offset for b in self.beginnings}


def find(kafka: KafkaClient, session: Session, pipeline: Pipeline, snapshot: TopicSnapshot) -> LogChange | None:
    """Whether the log is another one than the cursors, or the open head batch, belong to.

    Raises:
        BrokerUnavailable: no answer within the patience.
    """
    with transaction(session) as cursor:
        cursors = pipelines.read_cursors(cursor, pipeline.name)
        if cursors is None:
            return None
        if (cursors.cluster_id, cursors.topic_id) != (snapshot.cluster_id, snapshot.topic_id):
            return _recreated(pipeline, cursors, snapshot)
        head = batches.open_head(cursor, pipeline.name)
        epochs = planned_epochs(cursor, head.batch_id) if head else {}
    ends = {p.partition: p.high_watermark for p in snapshot.partitions}
    now = [Boundary(p, offset, cursors.leader_epochs.get(p)) for p, offset in cursors.next_offsets.items()]
    cut = [b.partition for b in _broken(kafka, snapshot.topic, now, ends)]
    needed = [Boundary(r.partition, r.until_offset, epochs[r.partition]) for r in head.ranges] if head else []
    planned = _broken(kafka, snapshot.topic, needed, ends)
    if not cut and not planned:
        return None
    with transaction(session) as cursor:
        history = read_boundaries(cursor, pipeline.name, cut)
    agreed = last_agreed(history, ends, _epoch_ends(kafka, snapshot.topic, history))
    starts = {p.partition: Boundary(p.partition, p.log_start) for p in snapshot.partitions}
    back = {partition: agreed.get(partition, starts[partition]) for partition in cut}
    return _truncated(pipeline, cursors, snapshot, back, head)


def _broken(kafka: KafkaClient, topic: str, known: Iterable[Boundary], ends: Mapping[int, int]) -> list[Boundary]:
    found = list(known)
    epoch_ends = _epoch_ends(kafka, topic, found)
    return [each for each in found if not agrees(each, ends, epoch_ends)]


def _epoch_ends(kafka: KafkaClient, topic: str, known: Iterable[Boundary]) -> dict[tuple[int, int], int]:
    """Where the leader epochs of these boundaries end; one request asks about one epoch of each partition."""
    epochs: dict[int, set[int]] = {}
    for each in known:
        if each.leader_epoch is not None:
            epochs.setdefault(each.partition, set()).add(each.leader_epoch)
    found = {}
    while asked := {partition: left.pop() for partition, left in epochs.items() if left}:
        found.update({(p, asked[p]): end for p, end in kafka.epoch_ends(topic, asked).items()})
    return found


def _recreated(pipeline: Pipeline, cursors: Cursors, snapshot: TopicSnapshot) -> LogChange:
    where = "" if cursors.cluster_id == snapshot.cluster_id else " and on another cluster"
    text = (
        f"topic {snapshot.topic} is another one{where} than the cursors belong to: go on with the new topic from the "
        "start of its log?"
    )
    details = {
        "topic_id": [cursors.topic_id, snapshot.topic_id],
        "cluster_id": [cursors.cluster_id, snapshot.cluster_id],
        "cursors": {str(p): offset for p, offset in cursors.next_offsets.items()},
        "log": {str(p.partition): [p.log_start, p.last_stable] for p in snapshot.partitions},
    }
    asked = Question(pipeline.name, QuestionKind.RECREATED_TOPIC, snapshot.topic_id, text, details)
    starts = tuple(Boundary(p.partition, p.log_start) for p in snapshot.partitions)
    return LogChange(asked, snapshot.topic_id, snapshot.cluster_id, starts, cursors)


def _truncated(
    pipeline: Pipeline, cursors: Cursors, snapshot: TopicSnapshot, back: Mapping[int, Boundary], head: Batch | None
) -> LogChange:
    """Every partition goes on at its cursor, but those that were cut: at the last place where log and ledger agree."""
    goes_on = {
        p: back.get(p, Boundary(p, offset, cursors.leader_epochs.get(p))) for p, offset in cursors.next_offsets.items()
    }
    log_id = replace(cursors, truncations=cursors.truncations + 1).log_id if back else cursors.log_id
    text = f"the log of topic {snapshot.topic} was cut off, by an unclean election or because an older copy came back: "
    details: dict[str, Any] = {"log_ends": {str(p.partition): p.high_watermark for p in snapshot.partitions}}
    if back:
        again = [OffsetRange(p, b.offset, cursors.next_offsets[p]) for p, b in sorted(back.items())]
        text += f"read on from where it still agrees with the ledger, so once more over {', '.join(map(str, again))}?"
        details["back"] = [[r.partition, r.from_offset, r.until_offset] for r in again]
    if head:
        text += (
            f" Then {head} is abandoned: it was planned from the log before."
            if back
            else f"abandon {head} and plan again?"
        )
        details["abandons"] = head.batch_id
    asked = Question(pipeline.name, QuestionKind.TRUNCATED_LOG, log_id, text, details)
    return LogChange(asked, log_id, cursors.cluster_id, tuple(goes_on.values()) if back else (), cursors)


def accept_topic(
    pipeline: Pipeline, origin: Origin, why: str, approved: Question | None = None, decision_id: int | None = None
) -> LogChange:
    """Go on with the log as it is now: a recreated topic from its start, a log that was cut off from where it agrees.

    ``approved`` is the question that the person saw. Open batches of the log before are abandoned: nobody can read
    their ranges any more.

    Raises:
        StateConflict: the log is again another one than was approved, or the open head batch is staged as a whole.
        TerminalError: the log is the one that the cursors belong to.
    """
    connection = get_connection(pipeline.source.connection)
    with connect_kafka(connection) as kafka, open_ledger(pipeline) as session:
        with transaction(session) as cursor:
            if head := batches.open_head(cursor, pipeline.name):
                check_not_whole(cursor, head)
        found = find(kafka, session, pipeline, kafka.snapshot(pipeline.source.topic))
        if found is None:
            raise TerminalError(
                f"pipeline {pipeline.name}: topic {pipeline.source.topic} is the one its cursors belong to, and holds "
                "all that was committed"
            )
        if approved is not None and _essence(approved) != _essence(found.question):
            raise StateConflict(
                f"another log was approved than there is now; nothing was changed: {found.question.text}"
            )
        with transaction(session) as cursor:
            pipelines.lock_pipeline(cursor, pipeline.name)
            if pipelines.read_cursors(cursor, pipeline.name) != found.cursors:
                raise StateConflict(f"the cursors of {pipeline.name} have moved meanwhile; nothing was changed")
            _accept(cursor, pipeline, found, origin, why, decision_id)
    return found


def _essence(question: Question) -> tuple[Any, ...]:
    """What a person approves; the other numbers move while nobody looks."""
    return question.kind, question.topic_id, question.details.get("back"), question.details.get("abandons")


def _accept(
    cursor: Cursor, pipeline: Pipeline, found: LogChange, origin: Origin, why: str, decision_id: int | None
) -> None:
    for batch_id in batches.open_batches(cursor, pipeline.name, heads_only=not found.beginnings):
        decisions.decide_batch(cursor, batch_id, State.ABANDONED, origin, f"its log is another one now: {why}")
    asked = decisions.answered_by(cursor, pipeline.name, found.question.kind, decision_id)
    for each in asked or [decisions.ask(cursor, found.question, origin)]:
        decisions.answer(cursor, each, QuestionAnswer.APPROVE, origin, why)
    pipelines.change_topic(cursor, pipeline.name, found.log_id, found.cluster_id)
    known = pipelines.read_cursors(cursor, pipeline.name)
    begun = set(known.next_offsets) if known else set()
    new = [b for b in found.beginnings if b.partition not in begun]
    pipelines.record_start_offsets(cursor, pipeline.name, found.log_id, new)
