"""Records from typed values, with event id and publish_at stamped where they are missing."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from offset_ledger.errors import UnserializableValue
from offset_ledger.reliability.publishing.record import Record
from offset_ledger.reliability.publishing.serializers import JSON, STRING, Serializer

EVENT_ID = "event_id"
PUBLISH_AT = "publish_at"


def now() -> datetime:
    """This moment, in UTC."""
    return datetime.now(UTC)


def new_id() -> str:
    """An event id that nobody else has."""
    return str(uuid.uuid4())


def rfc3339(moment: datetime) -> str:
    """``2013-01-01T10:15:00.000Z``, to the millisecond as Kafka's own timestamps."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class Form:
    """How keys and values become bytes, and where a missing event id and moment come from.

    Event id and publish_at go into the headers and, where the value is a JSON object, into the object too. What is
    already in the object is kept, and the headers repeat it.
    """

    key: Serializer = STRING
    value: Serializer = JSON
    new_id: Callable[[], str] = new_id
    clock: Callable[[], datetime] = now

    def record(
        self,
        key: Any,
        value: Any,
        headers: Iterable[tuple[str, bytes]] = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
        topic: str | None = None,
    ) -> Record:
        """One record, its value stamped.

        Raises:
            UnserializableValue: key or value does not fit its serializer.
        """
        headers = tuple(headers)
        try:
            if self.value is JSON and isinstance(value, Mapping):
                value = self._stamped(value, dict(headers))
                headers = with_headers(headers, str(value[EVENT_ID]), str(value[PUBLISH_AT]))
            else:
                headers = with_headers(headers, None, None, self.new_id, lambda: rfc3339(self.clock()))
        except UnicodeError as error:
            raise UnserializableValue(f"{EVENT_ID} and {PUBLISH_AT} should be UTF-8 ({error})") from None
        return Record(self.key.serialize(key), self.value.serialize(value), headers, timestamp_ms, partition, topic)

    def _stamped(self, value: Mapping[str, Any], headers: Mapping[str, bytes]) -> dict[str, Any]:
        made = dict(value)
        if made.get(EVENT_ID) is None:
            made[EVENT_ID] = headers[EVENT_ID].decode() if EVENT_ID in headers else self.new_id()
        if made.get(PUBLISH_AT) is None:
            made[PUBLISH_AT] = headers[PUBLISH_AT].decode() if PUBLISH_AT in headers else rfc3339(self.clock())
        return made


def with_headers(
    headers: tuple[tuple[str, bytes], ...],
    event_id: str | None,
    publish_at: str | None,
    new_id: Callable[[], str] = new_id,
    new_moment: Callable[[], str] = lambda: rfc3339(now()),
) -> tuple[tuple[str, bytes], ...]:
    """The headers with event id and publish_at, where they lack them; None: a new one."""
    names = {name for name, _ in headers}
    if EVENT_ID not in names:
        headers += ((EVENT_ID, (event_id or new_id()).encode()),)
    if PUBLISH_AT not in names:
        headers += ((PUBLISH_AT, (publish_at or new_moment()).encode()),)
    return headers
