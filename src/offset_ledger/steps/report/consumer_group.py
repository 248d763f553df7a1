"""Mirror: the cursors as offsets of a consumer group, so that Kafka's own tools and lag monitors see the pipeline.

Nothing reads the group's offsets back: the ledger alone says where a pipeline goes on.
"""

import logging
from collections.abc import Mapping

from offset_ledger.base.ids import consumer_group
from offset_ledger.errors import OffsetLedgerError
from offset_ledger.outside.connections import get_connection
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger import pipelines
from offset_ledger.postgres.ledger.database import Session, open_ledger, transaction

log = logging.getLogger(__name__)

_ROUNDS = 5
_TIMEOUT = 5.0  # seconds; short, because nothing depends on the mirror


def to_move(cursors: Mapping[int, int], group: Mapping[int, int], backwards: bool = False) -> dict[int, int]:
    """The offsets to commit for the group: those behind their cursors and, with ``backwards``, those ahead of them."""
    at = {p: group.get(p, -1) for p in cursors}
    return {p: cursor for p, cursor in sorted(cursors.items()) if at[p] < cursor or (backwards and at[p] > cursor)}


def mirror(pipeline: Pipeline, backwards: bool = False, session: Session | None = None) -> dict[int, int]:
    """Set the group to the cursors and return them; a failure is logged and harms nothing.

    A group only goes back right after a person approved that the pipeline starts again from earlier offsets.
    """
    name, topic = consumer_group(pipeline.name), pipeline.source.topic
    try:
        with (
            open_ledger(pipeline, session) as session,
            connect_kafka(get_connection(pipeline.source.connection), timeout=_TIMEOUT) as kafka,
        ):
            cursors = _cursors(session, pipeline)
            for _ in range(_ROUNDS):  # another batch may commit, and mirror, at the same time
                if moved := to_move(cursors, kafka.group_offsets(name, topic), backwards):
                    kafka.set_group_offsets(name, topic, moved)
                if (now := _cursors(session, pipeline)) == cursors:
                    break
                cursors = now
        return cursors
    except OffsetLedgerError as error:
        log.warning("the consumer group %s was not set: %s", name, error)
        return {}


def _cursors(session: Session, pipeline: Pipeline) -> dict[int, int]:
    with transaction(session) as cursor:
        cursors = pipelines.read_cursors(cursor, pipeline.name)
    return dict(cursors.next_offsets) if cursors else {}
