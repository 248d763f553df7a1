"""Mirror: the cursors as offsets of a consumer group, so that Kafka's own tools and lag monitors see the pipeline.

Nothing reads the group's offsets back: the ledger alone says where a pipeline goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import get_connection
from offset_ledger.errors import OffsetLedgerError
from offset_ledger.ids import consumer_group
from offset_ledger.kafka.client import connect_kafka
from offset_ledger.ledger import pipelines
from offset_ledger.ledger.database import transaction
from offset_ledger.ledger.open import open_ledger

log = logging.getLogger(__name__)

_ROUNDS = 5
_SECONDS = 5.0  # of retries while the brokers are away: nothing waits for the mirror


def to_move(cursors: Mapping[int, int], group: Mapping[int, int], backwards: bool = False) -> dict[int, int]:
    """The offsets to commit in the group's name: those that lag behind their cursors, or differ if it may go back."""
    wrong = {p: c for p, c in cursors.items() if (at := group.get(p)) is None or at < c or (backwards and at != c)}
    return dict(sorted(wrong.items()))


def mirror(pipeline: Pipeline, backwards: bool = False) -> dict[int, int]:
    """Set the group to the cursors and return them; a failure is logged and harms nothing.

    A group never goes back, unless a person has just approved that the pipeline begins anew.
    """
    try:
        return _mirror(pipeline, backwards)
    except OffsetLedgerError as error:
        log.warning("the consumer group %s was not set: %s", consumer_group(pipeline.name), error)
        return {}


def _mirror(pipeline: Pipeline, backwards: bool) -> dict[int, int]:
    """Until the ledger says the same before and after: another batch may commit, and mirror, meanwhile."""
    cursors = _cursors(pipeline)
    with connect_kafka(get_connection(pipeline.source.connection), timeout=_SECONDS) as kafka:
        for _ in range(_ROUNDS):
            name, topic = consumer_group(pipeline.name), pipeline.source.topic
            if moved := to_move(cursors, kafka.group_offsets(name, topic), backwards):
                kafka.set_group_offsets(name, topic, moved)
            if (again := _cursors(pipeline)) == cursors:
                break
            cursors = again
    return cursors


def _cursors(pipeline: Pipeline) -> dict[int, int]:
    with open_ledger(pipeline) as session, transaction(session) as cursor:
        found = pipelines.read_cursors(cursor, pipeline.name)
    return dict(found.next_offsets) if found else {}
