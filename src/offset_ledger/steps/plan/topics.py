"""The topics of a pipeline file: each has a pipeline of its own, and all of them fill one table."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, suppress

from offset_ledger.errors import ConfigurationError, UnknownTopic
from offset_ledger.outside.connections import get_connection
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.pipeline_file.pipeline import Pipeline, Tombstone
from offset_ledger.postgres.ledger.batches import open_head
from offset_ledger.postgres.ledger.database import Cursor, open_ledger, transaction
from offset_ledger.postgres.ledger.pipelines import read_cursors, read_topics, record_topics, retirements
from offset_ledger.steps.plan.head import is_drained


def find_pipelines(pipeline: Pipeline, record: bool = True) -> tuple[Pipeline, ...]:
    """Return a pipeline for each topic that the file reads now; the file's own if it reads one.

    The cluster is asked which topics match a pattern. A topic that it had before and lost is among them, so that its
    unread records are missed until a person has settled that it is gone. The topics are recorded, unless nothing should
    be written.

    Raises:
        ConfigurationError: no topic matches, and none ever did.
        BrokerUnavailable, DatabaseUnavailable: a server is unavailable.
    """
    if not pipeline.source.several:
        return (pipeline,)
    topics = _existing(pipeline) if pipeline.source.topic_pattern else ()
    with open_ledger(pipeline) as session, transaction(session) as cursor:
        if record and topics:
            record_topics(cursor, pipeline, topics)
        known = {*pipeline.source.topics, *topics, *read_topics(cursor, pipeline)}
        names = [each.name for each in _of(pipeline, known)]
        retired = {each.topic for each in retirements(cursor, names).values()}
    if retired and not pipeline.source.topic_pattern:
        topics = _existing(pipeline)
    if not known:
        raise ConfigurationError(
            f"pipeline {pipeline.name}: no topic matches source.topic_pattern {pipeline.source.topic_pattern}; create "
            "one, correct the pattern, or give the login of the connection the right to describe topics"
        )
    return _of(pipeline, known - (retired - {*topics}))


def _existing(pipeline: Pipeline) -> tuple[str, ...]:
    """The topics of the file that the cluster has."""
    with connect_kafka(get_connection(pipeline.source.connection)) as kafka:
        return tuple(topic for topic in kafka.topics() if pipeline.source.reads(topic))


def known_pipelines(pipeline: Pipeline, ledger: AbstractContextManager[Cursor] | None = None) -> tuple[Pipeline, ...]:
    """Return them without asking the cluster: for a pattern, the topics that earlier runs have found; retired ones too.

    ``ledger`` is a transaction with the ledger, which is entered only for a pattern.

    Raises:
        DatabaseUnavailable: the ledger is unavailable.
    """
    if pipeline.source.topic_pattern is None:
        return _of(pipeline, pipeline.source.topics) if pipeline.source.topics else (pipeline,)
    if ledger:
        with ledger as cursor:
            return _of(pipeline, read_topics(cursor, pipeline))
    with open_ledger(pipeline) as session, transaction(session) as cursor:
        return _of(pipeline, read_topics(cursor, pipeline))


def with_backlog(pipelines: Sequence[Pipeline]) -> tuple[Pipeline, ...]:
    """Return those of a file's pipelines that may have something to plan; the others are read up to their ends.

    One that deletes by tombstones is always among them, because each of its plans records how far its log is stable.

    Raises:
        BrokerUnavailable, DatabaseUnavailable: a server is unavailable.
    """
    if not pipelines:
        return ()
    new = []
    connection = get_connection(pipelines[0].source.connection)
    with connect_kafka(connection) as kafka, open_ledger(pipelines[0]) as session:
        for each in pipelines:
            with suppress(UnknownTopic):
                snapshot = kafka.snapshot(each.source.topic)
                with transaction(session) as cursor:
                    cursors, head = read_cursors(cursor, each.name), open_head(cursor, each.name)
                deletes = each.record.tombstone is Tombstone.DELETE
                if head is None and not deletes and is_drained(cursors, snapshot):
                    continue
            new.append(each)
    return tuple(new)


def _of(pipeline: Pipeline, topics: Iterable[str]) -> tuple[Pipeline, ...]:
    """Leave out topics that the pattern, which may have changed since, no longer matches."""
    return tuple(pipeline.of_topic(topic) for topic in sorted(topics) if pipeline.source.reads(topic))
