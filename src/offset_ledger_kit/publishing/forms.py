"""Records from typed values, with event id and publish_at stamped where they are missing."""

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from offset_ledger.errors import UnserializableValue
from offset_ledger.outside.producer.record import Record
from offset_ledger_kit.publishing.serializers import JSON, STRING, SchemaSerializer, Serializer

EVENT_ID = "event_id"
PUBLISH_AT = "publish_at"


def rfc3339(moment: datetime) -> str:
    """``2013-01-01T10:15:00.000Z``, to the millisecond as Kafka's own timestamps."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class Form:
    """A way from keys and values to bytes, which says where a missing event id and moment come from.

    Event id and publish_at go into the headers and, with ``stamp_values``, where the value is a JSON object or its
    schema has a field of that name, into the object too. What is already in the object is kept, and the headers repeat
    it.
    """

    key: Serializer = STRING
    value: Serializer = JSON
    new_id: Callable[[], str] = lambda: str(uuid.uuid4())
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    stamp_values: bool = False

    def record(
        self,
        key: Any,
        value: Any,
        headers: Iterable[tuple[str, bytes]] = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
        topic: str | None = None,
    ) -> Record:
        """One record, stamped.

        Raises:
            UnserializableValue: key or value does not fit its serializer.
        """
        headers = tuple(headers)
        try:
            given: tuple[str | None, str | None] = None, None
            if isinstance(value, Mapping) and self._members is not None:
                value, said = dict(value), dict(headers)
                for name in self._members:
                    if value.get(name) in (None, ""):
                        new = self.new_id() if name == EVENT_ID else rfc3339(self.clock())
                        value[name] = said[name].decode() if name in said else new
                given = _text(value.get(EVENT_ID)), _text(value.get(PUBLISH_AT))
            headers = self.with_schemas(self.with_headers(headers, *given), key, value)
        except UnicodeError as error:
            raise UnserializableValue(f"{EVENT_ID} and {PUBLISH_AT} should be UTF-8 ({error})") from None
        return Record(self.key.serialize(key), self.value.serialize(value), headers, timestamp_ms, partition, topic)

    def with_headers(
        self,
        headers: tuple[tuple[str, bytes], ...],
        event_id: str | None,
        publish_at: str | None,
    ) -> tuple[tuple[str, bytes], ...]:
        """The headers with event id and publish_at, where they lack them; None: a new one."""
        names = {name for name, _ in headers}
        if EVENT_ID not in names:
            headers += ((EVENT_ID, (event_id or self.new_id()).encode()),)
        if PUBLISH_AT not in names:
            headers += ((PUBLISH_AT, (publish_at or rfc3339(self.clock())).encode()),)
        return headers

    def with_schemas(
        self, headers: tuple[tuple[str, bytes], ...], key: Any, value: Any
    ) -> tuple[tuple[str, bytes], ...]:
        """The headers with those that name the schemas of key and value, in the place of others of their names."""
        sides = ((self.key, key), (self.value, value))
        wanted = [each.header for each, given in sides if isinstance(each, SchemaSerializer) and given is not None]
        named = dict(filter(None, wanted))
        return (*(each for each in headers if each[0] not in named), *named.items())

    @property
    def identity(self) -> str:
        """Return a text that changes with all that decides a record's bytes beside its line; empty without schema."""
        parts = (("key", self.key), ("value", self.value))
        return "".join(f"{side} {each.identity}\n" for side, each in parts if isinstance(each, SchemaSerializer))

    @property
    def _members(self) -> Collection[str] | None:
        """The members that are stamped where the value is an object; None where it is something else."""
        if not self.stamp_values:
            return ()
        if isinstance(self.value, SchemaSerializer):
            return self.value.stamps
        return (EVENT_ID, PUBLISH_AT) if self.value is JSON else None


def _text(member: Any) -> str | None:
    """A member as its header; that of a union may stand in an object with the name of its branch."""
    if isinstance(member, Mapping) and len(member) == 1:
        (member,) = member.values()
    if isinstance(member, datetime):
        return rfc3339(member)
    return None if member is None else str(member)
