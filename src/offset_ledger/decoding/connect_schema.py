"""The schema that Kafka Connect's JsonConverter writes into each record, beside the value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from offset_ledger.pipeline_file.pipeline import Column, JsonPath

PAYLOAD = "payload"
VARIABLE_SCALE = "io.debezium.data.VariableScaleDecimal"
_INVALID = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class ConnectSchema(msgspec.Struct, frozen=True):
    """The schema of a value; a struct has ``fields``, each with its name as ``field``, and an array ``items``."""

    field: str | None = None
    type: str = ""
    name: str | None = None
    optional: bool = False
    default: Any = None
    fields: tuple[ConnectSchema, ...] = ()
    items: ConnectSchema | None = None
    parameters: dict[str, str] = {}

    def along(self, path: JsonPath) -> list[ConnectSchema]:
        """Return the schemas of the members that the path leads through, until one is missing."""
        members = list[ConnectSchema]()
        for name in path:
            fields = members[-1].fields if members else self.fields
            member = next((each for each in fields if each.field == name), None)
            if member is None:
                break
            members.append(member)
        return members

    def at(self, path: JsonPath) -> ConnectSchema | None:
        """Return the schema of a member of a member."""
        members = self.along(path)
        return members[-1] if len(members) == len(path) else None


class _Wrapper(msgspec.Struct, frozen=True):
    schema: ConnectSchema | None = None
    payload: msgspec.Raw = msgspec.Raw()


_wrapper = msgspec.json.Decoder(_Wrapper).decode


def connect_schema(value: bytes) -> ConnectSchema | None:
    """Return the schema in the wrapper of a record; None where it has none."""
    try:
        wrapper = _wrapper(value)
    except _INVALID:
        return None
    return wrapper.schema if bytes(wrapper.payload) else None


def null_as_default(value: bytes, columns: Iterable[Column]) -> list[str]:
    """Return a line on columns whose NULL may have become the default of a nullable field; None if there are none."""
    schema = connect_schema(value) or ConnectSchema()
    fields = [
        (each.name, schema.at(each.path[1:] if each.path[0] == PAYLOAD else each.path)) for each in columns if each.path
    ]
    if not (names := [name for name, field in fields if field and field.optional and field.default is not None]):
        return []
    return [
        f"{', '.join(names)}: where the source has NULL, Kafka Connect's JsonConverter writes the default of its "
        "column, unless the setting replace.null.with.default is false"
    ]
