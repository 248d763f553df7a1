"""Accept: a person lets a pipeline go on after its topic, its table or the schema of its records has changed.

A topic that was recreated or deleted, or a log that was truncated, has other records at the offsets from some point on,
or none. The partitions start again there, and what the ledger has of the earlier log stays as it is.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from offset_ledger.decoding.needed_columns import Difference
from offset_ledger.errors import ConfigurationError, StateConflict, TerminalError, UnknownTopic
from offset_ledger.model.batch import Batch, Origin
from offset_ledger.model.questions import Question, QuestionKind
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.snapshot import Boundary, Cursors, TopicSnapshot, agrees, last_agreed
from offset_ledger.model.states import BatchKind, State
from offset_ledger.outside.connections import get_connection
from offset_ledger.outside.kafka.client import KafkaClient, connect_kafka
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger import batches, decisions, pipelines, schema_boundaries
from offset_ledger.postgres.ledger.completeness import check_not_whole, is_whole
from offset_ledger.postgres.ledger.database import Cursor, Session, open_ledger, transaction
from offset_ledger.postgres.ledger.schema_boundaries import Writer
from offset_ledger.postgres.table import row_counts
from offset_ledger.postgres.table.change import accept_rows, ensure_target, is_there
from offset_ledger.postgres.table.key_places import keep_key_places
from offset_ledger.steps.stage.schemas import Brought, read_opening


@dataclass(frozen=True, slots=True)
class LogChange:
    """The question for a person, and where the partitions of the new log start.

    ``start_offsets`` is empty if the cursors are still right and only the open batch has to be abandoned, and if the
    topic is gone.
    """

    question: Question
    log_id: str
    cluster_id: str
    start_offsets: tuple[Boundary, ...]
    cursors: Cursors

    def __str__(self) -> str:
        if self.is_gone:
            return "that its topic is gone; later runs leave it out"
        starts = ", ".join(f"{partition}: {offset}" for partition, offset in self.starts.items())
        return f"log {self.log_id}" + (f", which starts at {starts}" if starts else "; the next run plans again")

    @property
    def is_gone(self) -> bool:
        """Return whether there is no log any more."""
        return self.question.kind is QuestionKind.TOPIC_GONE

    @property
    def starts(self) -> dict[int, int]:
        """Partition -> the offset where it goes on."""
        return {b.partition: b.offset for b in self.start_offsets}


def find_log_change(
    kafka: KafkaClient, session: Session, pipeline: Pipeline
) -> tuple[LogChange | None, TopicSnapshot | None]:
    """Return how the log differs from the one that the cursors, or the open head batch, belong to; None if it does not.

    With a snapshot of the topic; None if it is gone. There is no question about a topic that was retired.

    Raises:
        UnknownTopic: the topic does not exist, and is none of several that the pipeline has read on this cluster.
        BrokerUnavailable: the brokers did not answer in time.
    """
    try:
        snapshot = kafka.snapshot(pipeline.source.topic, read_before=True)
    except UnknownTopic as error:
        return _gone(kafka, session, pipeline, error), None
    return _differing(kafka, session, pipeline, snapshot), snapshot


def _gone(kafka: KafkaClient, session: Session, pipeline: Pipeline, error: UnknownTopic) -> LogChange | None:
    cluster_id = kafka.cluster_id()
    with transaction(session) as cursor:
        cursors = pipelines.read_cursors(cursor, pipeline.name)
        if cursors is None or not pipeline.of_several:
            raise error
        if cursors.cluster_id != cluster_id:
            raise UnknownTopic(
                f"topic {pipeline.source.topic} does not exist on cluster {cluster_id}, where the connection leads; "
                f"the cursors belong to cluster {cursors.cluster_id}; correct the connection, or leave the topic out "
                "of topics or topic_pattern"
            ) from error
        if pipelines.retirements(cursor, [pipeline.name]):
            return None
        starts = pipelines.read_start_offsets(cursor, pipeline.name, cursors.log_id)
        open_batches = batches.open_batches(cursor, pipeline.name)
    details = {
        "topic_id": cursors.topic_id,
        "cursors": {str(p): offset for p, offset in cursors.next_offsets.items()},
        "committed": f"{sum(offset - starts[p] for p, offset in cursors.next_offsets.items()):,}",
        "open_batches": open_batches or None,
    }
    text = (
        f"Topic {pipeline.source.topic} is gone: the cluster does not have it any more. Leave it out of later runs? "
        "Records that were not read yet, if it had any, are lost; its rows stay in the table."
    )
    question = Question(pipeline.name, QuestionKind.TOPIC_GONE, cursors.log_id, text, details)
    return LogChange(question, cursors.log_id, cursors.cluster_id, (), cursors)


def _differing(kafka: KafkaClient, session: Session, pipeline: Pipeline, snapshot: TopicSnapshot) -> LogChange | None:
    with transaction(session) as cursor:
        cursors = pipelines.read_cursors(cursor, pipeline.name)
        if cursors is None:
            return None
        if (cursors.cluster_id, cursors.topic_id) != (snapshot.cluster_id, snapshot.topic_id):
            return _recreated(pipeline, cursors, snapshot)
        head = batches.open_head(cursor, pipeline.name)
    committed = [Boundary(p, offset, cursors.leader_epochs.get(p)) for p, offset in cursors.next_offsets.items()]
    truncated = [b.partition for b in _disagreeing(kafka, snapshot, committed)]
    planned = [Boundary(r.partition, r.until_offset, head.epochs[r.partition]) for r in head.ranges] if head else []
    if not truncated and not _disagreeing(kafka, snapshot, planned):
        return None
    with transaction(session) as cursor:
        history = pipelines.read_boundaries(cursor, pipeline.name, truncated)
    agreed = last_agreed(history, _ends(snapshot), _epoch_ends(kafka, snapshot.topic, history))
    starts = {p.partition: Boundary(p.partition, p.log_start) for p in snapshot.partitions}
    back = {partition: agreed.get(partition, starts[partition]) for partition in truncated}
    return _truncated(pipeline, cursors, snapshot, back, head)


def _disagreeing(kafka: KafkaClient, snapshot: TopicSnapshot, boundaries: Sequence[Boundary]) -> list[Boundary]:
    epoch_ends = _epoch_ends(kafka, snapshot.topic, boundaries)
    return [each for each in boundaries if not agrees(each, _ends(snapshot), epoch_ends)]


def _ends(snapshot: TopicSnapshot) -> dict[int, int]:
    return {p.partition: p.high_watermark for p in snapshot.partitions}


def _epoch_ends(kafka: KafkaClient, topic: str, boundaries: Iterable[Boundary]) -> dict[tuple[int, int], int]:
    """Return where the leader epochs of these boundaries end; each request asks for one epoch of each partition."""
    epochs: dict[int, set[int]] = {}
    for each in boundaries:
        if each.leader_epoch is not None:
            epochs.setdefault(each.partition, set()).add(each.leader_epoch)
    ends = {}
    while asked := {partition: left.pop() for partition, left in epochs.items() if left}:
        ends.update({(p, asked[p]): end for p, end in kafka.epoch_ends(topic, asked).items()})
    return ends


def _recreated(pipeline: Pipeline, cursors: Cursors, snapshot: TopicSnapshot) -> LogChange:
    known = cursors.cluster_id == snapshot.cluster_id
    what = "was deleted and created again" if known else "is on another cluster than the one that was read until now"
    text = f"Topic {snapshot.topic} {what}. Continue with the new topic, from the start of its log?"
    if pipeline.record.append:
        text += " Each of its records becomes a row (merge: append), also what the table has of the earlier one."
    details = {
        "topic_id": [cursors.topic_id, snapshot.topic_id],
        "cluster_id": [cursors.cluster_id, snapshot.cluster_id],
        "cursors": {str(p): offset for p, offset in cursors.next_offsets.items()},
        "log": {str(p.partition): [p.log_start, p.last_stable] for p in snapshot.partitions},
    }
    question = Question(pipeline.name, QuestionKind.RECREATED_TOPIC, snapshot.topic_id, text, details)
    starts = tuple(Boundary(p.partition, p.log_start) for p in snapshot.partitions)
    return LogChange(question, snapshot.topic_id, snapshot.cluster_id, starts, cursors)


def _truncated(
    pipeline: Pipeline, cursors: Cursors, snapshot: TopicSnapshot, back: Mapping[int, Boundary], head: Batch | None
) -> LogChange:
    """Return where every partition goes on: at its cursor; a truncated one where both agree, or at its log start."""
    goes_on = {
        p: back.get(p, Boundary(p, offset, cursors.leader_epochs.get(p))) for p, offset in cursors.next_offsets.items()
    }
    log_id = replace(cursors, truncations=cursors.truncations + 1).log_id if back else cursors.log_id
    again = [OffsetRange(p, b.offset, cursors.next_offsets[p]) for p, b in sorted(back.items())]
    details: dict[str, Any] = {"log_ends": {str(p): end for p, end in _ends(snapshot).items()}}
    if back:
        details["back"] = [[r.partition, r.from_offset, r.until_offset] for r in again]
    if head:
        details["abandons"] = head.batch_id
    text = (
        f"The log of topic {snapshot.topic} was truncated by an unclean election, or an older copy of it was restored."
    )
    batch = f"batch {head.batch_id}" if head else ""
    if not again:
        text += f" Abandon {batch}, which was planned before that, and plan again?"
    else:
        text += " Continue from where it still agrees with the ledger, and read these offsets again: "
        text += f"{'; '.join(r.in_words for r in again)}?"
        text += f" Then {batch} is abandoned, because it was planned before that." if head else ""
    question = Question(pipeline.name, QuestionKind.TRUNCATED_LOG, log_id, text, details)
    return LogChange(question, log_id, cursors.cluster_id, tuple(goes_on.values()) if back else (), cursors)


def accept_topic(
    pipeline: Pipeline, origin: Origin, why: str, approved: Question | None = None, decision_id: int | None = None
) -> LogChange:
    """Go on with the log as it is now: a recreated topic from its start, a truncated log from where it still agrees.

    One of several topics that was deleted is left out of later runs.

    ``approved`` is the question that the person saw. Open batches of the earlier log are abandoned: nobody can read
    their ranges any more.

    Raises:
        StateConflict: the log has changed again since the approval, or the open head batch is completely staged.
        TerminalError: the log is the one that the cursors belong to, or the topic was retired before.
        UnknownTopic: the topic of a pipeline that reads no other does not exist.
    """
    connection = get_connection(pipeline.source.connection)
    with connect_kafka(connection) as kafka, open_ledger(pipeline) as session:
        with transaction(session) as cursor:
            if head := batches.open_head(cursor, pipeline.name):
                check_not_whole(cursor, head)
        change, snapshot = find_log_change(kafka, session, pipeline)
        if change is None:
            holds = "is the one its cursors belong to, and holds all that was committed"
            state = holds if snapshot else "is gone, and was retired before"
            raise TerminalError(f"pipeline {pipeline.name}: topic {pipeline.source.topic} {state}; nothing was changed")
        if approved is not None and _approvable(approved) != _approvable(change.question):
            now = change.question.text
            raise StateConflict(f"the log is not the one that was approved; nothing was changed: {now}")
        _accept(session, pipeline, change, origin, why, decision_id)
    return change


def _approvable(question: Question) -> tuple[Any, ...]:
    """Return what a person approves, without the numbers that change all the time."""
    return question.kind, question.topic_id, question.details.get("back"), question.details.get("abandons")


def _accept(
    session: Session, pipeline: Pipeline, change: LogChange, origin: Origin, why: str, decision_id: int | None
) -> None:
    with transaction(session) as cursor:
        pipelines.lock_pipeline(cursor, pipeline.name)
        if pipelines.read_cursors(cursor, pipeline.name) != change.cursors:
            raise StateConflict(f"the cursors of {pipeline.name} have moved meanwhile; nothing was changed")
        heads_only = not change.start_offsets and not change.is_gone
        open_batches = batches.open_batches(cursor, pipeline.name, heads_only=heads_only)
        if change.is_gone:  # those that need records of the topic
            unended = [batches.read_batch(cursor, batch_id) for batch_id in open_batches]
            reading = [each for each in unended if each.kind is not BatchKind.REDRIVE]
            open_batches = [each.batch_id for each in reading if not is_whole(cursor, each)]
        for batch_id in reversed(open_batches):  # with a batch goes the one ahead of it
            decisions.decide_batch(cursor, batch_id, State.ABANDONED, origin, f"its log has changed: {why}")
        decisions.approve(cursor, change.question, decision_id, origin, why)
        pipelines.change_topic(cursor, pipeline.name, change.log_id, change.cluster_id)
        cursors = pipelines.read_cursors(cursor, pipeline.name)
        known = set(cursors.next_offsets) if cursors else set()
        new = [b for b in change.start_offsets if b.partition not in known]
        pipelines.record_start_offsets(cursor, pipeline.name, change.log_id, new)


def accept_table(pipeline: Pipeline, origin: Origin, why: str) -> int:
    """Count the table's event ids, which ``verify`` compares with from now on; return the count.

    Bookkeeping beside the table follows it, and is made again if it is missing. The key may be read from another place
    of the records from now on.

    Raises:
        ConfigurationError: the pipeline has never been planned.
        TargetMismatch: the target table does not fit the pipeline file.
    """
    with open_ledger(pipeline) as session, transaction(session) as cursor:
        known = pipelines.registered_of(cursor, pipeline)
        if known is None:
            absent = "is not in this ledger, so there is nothing to compare; ingest it first"
            raise ConfigurationError(f"pipeline {pipeline.name} {absent}")
        pipelines.lock_pipeline(cursor, known.name)
        pipelines.lock_table(cursor, known)
        keep_key_places(cursor, known)
        if is_there(cursor, known.target.name):
            accept_rows(cursor, known)
        ensure_target(cursor, known)
        return row_counts.count(cursor, known, origin, why)


def schema_question(pipeline: Pipeline, session: Session | None = None) -> Question | None:
    """Return the question whether to leave the columns, although a schema of the open head batch does not fit."""
    if not pipeline.follows_schemas:
        return None
    with open_ledger(pipeline, session) as session, transaction(session) as cursor:
        undecided = _read(cursor, pipeline)
        return _question(pipeline, *undecided) if undecided else None


def accept_schema(
    pipeline: Pipeline, origin: Origin, why: str, approved: Question | None = None, decision_id: int | None = None
) -> tuple[Difference, ...]:
    """Leave the columns as they are: what does not fit them goes to quarantine; return the accepted differences.

    ``approved`` is the question that the person saw. The same differences of a later schema are not asked about again.

    Raises:
        StateConflict: the differences are no longer the ones that were approved.
        TerminalError: no schema waits for a decision.
    """
    with open_ledger(pipeline) as session, transaction(session) as cursor:
        pipelines.lock_pipeline(cursor, pipeline.name)
        undecided = _read(cursor, pipeline) if pipeline.follows_schemas else None
        if undecided is None:
            raise TerminalError(f"pipeline {pipeline.name}: no schema waits for a decision")
        question = _question(pipeline, *undecided)
        if approved and approved.details["differences"] != question.details["differences"]:
            raise StateConflict(f"other differences were approved; nothing was changed: {question.text}")
        differences = _differences(undecided[2])
        schema_boundaries.accept(cursor, pipeline.name, differences, origin, why)
        decisions.approve(cursor, question, decision_id, origin, why)
        return differences


def _read(cursor: Cursor, pipeline: Pipeline) -> tuple[Batch, Mapping[Writer, Mapping[int, int]], Brought] | None:
    """The open head batch, the schemas that it begins with, and what they bring; None where nothing is to be asked."""
    head = batches.open_head(cursor, pipeline.name)
    if head is None or head.judged:
        return None
    opening, brought = read_opening(cursor, pipeline, head)
    return (head, opening, brought) if brought.questions else None


def _differences(brought: Brought) -> tuple[Difference, ...]:
    return tuple(dict.fromkeys(each for differences in brought.questions.values() for each in differences))


def _question(
    pipeline: Pipeline, head: Batch, opening: Mapping[Writer, Mapping[int, int]], brought: Brought
) -> Question:
    begins = {str(partition): offset for writer in brought.questions for partition, offset in opening[writer].items()}
    schemas, differences = list(map(str, brought.questions)), list(map(str, _differences(brought)))
    adds = [f"{each.column.name} {each.column.type.sql}" for each in brought.columns]
    details = {"schemas": schemas, "begins": begins, "differences": differences, "adds": adds or None}
    text = (
        f"Leave the columns as they are, although {', '.join(schemas)} in topic {pipeline.source.topic} does not fit "
        f"them: {'; '.join(differences)}?"
    )
    return Question(pipeline.name, QuestionKind.CHANGED_SCHEMA, head.topic_id, text, details, head.batch_id)
