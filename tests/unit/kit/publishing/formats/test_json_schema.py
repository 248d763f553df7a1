"""JSON Schema: a valid document is written with every digit, another one refused with the path of what is wrong."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from offset_ledger.errors import ConfigurationError, UnserializableValue
from offset_ledger.model.writer_schema import SchemaLanguage, SchemaReference, WriterSchema
from offset_ledger_kit.publishing.formats.framing import framed
from offset_ledger_kit.publishing.formats.registered import compile_codec
from offset_ledger_kit.publishing.forms import Form
from offset_ledger_kit.publishing.serializers import SchemaSerializer

FRAME = b"\0\0\0\1\0"
PROPERTIES: dict[str, Any] = {
    "event_id": {"type": "string"},
    "publish_at": {"type": ["integer", "null"]},
    "amount": {"type": "number", "multipleOf": 0.01, "maximum": 100},
    "lines": {"type": "array", "items": {"type": "object", "required": ["sku"]}},
}
SCHEMA = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Order", "type": "object",
    "properties": PROPERTIES, "required": ["amount"], "additionalProperties": False}  # fmt: skip


def serializer(said: Any, *references: SchemaReference) -> SchemaSerializer:
    schema = WriterSchema(256, SchemaLanguage.JSON, json.dumps(said), references)
    return framed("json_schema", schema, compile_codec(schema))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"amount": Decimal("1.10")}, '{"amount":1.10}'),
        ({"amount": Decimal("1E-2"), "event_id": "ä\n"}, '{"amount":0.01,"event_id":"ä\\n"}'),
        ({"amount": -(10**30)}, '{"amount":-1000000000000000000000000000000}'),
        ({"amount": 5, "lines": [{"sku": None}]}, '{"amount":5,"lines":[{"sku":null}]}'),
    ],
)  # fmt: skip
def test_a_valid_document_is_written_as_it_is(value: Any, text: str) -> None:
    made = serializer(SCHEMA)
    data = made.serialize(value)
    assert data == FRAME + text.encode()
    assert made.deserialize(data) == value
    assert (made.stamps, made.serialize(None)) == (frozenset({"event_id"}), None)
    assert Form(value=made, stamp_values=False).record(None, value).value == data


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"amount": Decimal("1.005")}, "$.amount: 1.005 is not a multiple of 0.01"),
        ({"amount": "1"}, '$.amount: "1" is not of type "number"'),
        ({"amount": 1, "lines": [{"sku": 1}, {}]}, '$.lines[1]: "sku" is a required property'),
        ({}, '$: "amount" is a required property'),
        ({"amount": 1, "more": 2}, "$: Additional properties are not allowed ('more' was unexpected)"),
        ({"amount": float("nan")}, "$: expected a number of JSON, found nan"),
        ({"amount": 1, "event_id": "\ud800"}, "$: expected what JSON can say"),
        ({"amount": 1, "event_id": object()}, "$: expected what JSON can say"),
    ],
)
def test_another_document_is_refused_with_its_path(value: Any, reason: str) -> None:
    with pytest.raises(UnserializableValue) as caught:
        serializer(SCHEMA).serialize(value)
    assert str(caught.value).startswith(f"json_schema: {reason}"), str(caught.value)


@pytest.mark.parametrize("data", [b"", b"{}", FRAME, FRAME + b"{", FRAME + b'{"amount": "1"}', b"\0\0\0\2\0{}"])
def test_bytes_of_another_schema_are_refused(data: bytes) -> None:
    with pytest.raises(UnserializableValue, match=r"^json_schema: "):
        serializer(SCHEMA).deserialize(data)


def test_a_schema_refers_to_another_one() -> None:
    made = serializer({"$ref": "b.json"}, SchemaReference("b.json", "s", 1, '{"type": "integer"}'))
    assert made.serialize(5) == FRAME + b"5"
    with pytest.raises(UnserializableValue, match='is not of type "integer"'):
        made.serialize("5")


@pytest.mark.parametrize("text", ["", "5", '{"type": "nothing"}', '{"$ref": "nowhere.json"}'])
def test_what_is_no_schema_is_one_line(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^it is no JSON Schema: .+; correct it$"):
        compile_codec(WriterSchema(1, SchemaLanguage.JSON, text))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.decimals(-(10**9), 10**9, places=3),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=3), children, max_size=3),
    max_leaves=5,
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.fixed_dictionaries({}, optional=dict.fromkeys(PROPERTIES, _JSON)))
def test_another_validator_says_the_same_of_what_is_written(value: dict[str, Any]) -> None:
    said = json.loads(json.dumps(SCHEMA))
    said["properties"]["amount"].pop("multipleOf")  # which other validators decide in floats
    valid = jsonschema.Draft7Validator(said).is_valid(_floats(value))
    try:
        data = serializer(said).serialize(value)
    except UnserializableValue:
        assert not valid
    else:
        assert valid
        assert json.loads((data or b"")[5:], parse_float=Decimal) == value


def _floats(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _floats(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_floats(each) for each in value]
    return float(value) if isinstance(value, Decimal) else value
