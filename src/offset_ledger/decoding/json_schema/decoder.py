"""The decoder of JSON Schema: jsonschema-rs validates, the decoder of JSON makes the row."""

from collections.abc import Callable
from decimal import Decimal
from itertools import islice
from typing import Any

import jsonschema_rs
import msgspec
import numpy as np
import pyarrow as pa

from offset_ledger.decoding import decimals, outcome
from offset_ledger.decoding.decoder import Decoder
from offset_ledger.decoding.json.conversions import json_kind
from offset_ledger.decoding.json.decoder import JsonDecoder
from offset_ledger.decoding.kinds import check_event_id
from offset_ledger.decoding.outcome import (
    Code,
    Key,
    Mismatch,
    Outcome,
    Proven,
    Reason,
    Refusal,
    SchemaProblem,
    Skip,
    Timestamp,
)
from offset_ledger.model.writer_schema import WriterSchema
from offset_ledger.pipeline_file.json_path import format_path
from offset_ledger.pipeline_file.pipeline import Limits, RecordShape

MAX_REASONS = 10
_values = msgspec.json.Decoder(Any, float_hook=Decimal).decode
_NO_VALUES = (msgspec.DecodeError, ValueError, ArithmeticError, RecursionError)


class JsonSchemaDecoder(Decoder):
    """The decoder of JSON with a JSON Schema; formats such as date-time are not validated.

    Raises:
        SchemaProblem: it is no JSON Schema, or refers to one that is not there.
    """

    def __init__(self, schema: WriterSchema, record: RecordShape, limits: Limits) -> None:
        self.record = record
        self._json = JsonDecoder(record, limits, by_schema=True)
        self._validator = schema_validator(schema)

    def decode(self, value: bytes | None, key: Key, timestamp: Timestamp) -> Outcome:
        """The row of a record, or every reason against it; never raises."""
        decoded = self._json.decode(value, key, timestamp)
        known = decoded.reasons if isinstance(decoded, Refusal) else ()
        if (
            value is None
            or isinstance(decoded, Skip)
            or any(reason.path == outcome.WHOLE for reason in known)
            or not (invalid := self._reasons(value))
        ):
            return decoded
        return Refusal((*known, *invalid))

    def prove(self, values: pa.BinaryArray) -> Proven | None:
        """The values that are valid and that the decoder of JSON proves."""
        proven = self._json.prove(values)
        if proven is None:
            return None
        valid = np.zeros(len(proven.places), np.bool_)
        for number, text in enumerate(values.take(pa.array(proven.places)).to_pylist()):
            try:
                valid[number] = self._validator.is_valid(_values(text))
            except _NO_VALUES:
                continue
        return proven.kept(valid)

    def _reasons(self, text: bytes) -> list[Reason]:
        """Return the schema's reasons against a record that is valid JSON."""
        try:
            errors = islice(self._validator.iter_errors(_values(text)), MAX_REASONS)
            paths = ((outcome.printable(format_path(tuple(map(str, each.instance_path)))), each) for each in errors)
            return [Reason(path, Code.SCHEMA, outcome.printable(each.message, 200)) for path, each in paths]
        except _NO_VALUES as error:
            detail = f"expected what a schema can validate: {outcome.printable(str(error))}"
            return [Reason(outcome.WHOLE, Code.SCHEMA, detail)]


def key_text(schema: WriterSchema) -> Callable[[bytes], str]:
    """Return how a key of that schema names the event: a JSON text or integer.

    Raises:
        SchemaProblem: as for a value.
    """
    validator = schema_validator(schema)

    def read(key: bytes) -> str:
        try:
            value = _values(key)
        except _NO_VALUES:
            raise Mismatch(Code.SYNTAX, "expected a JSON text or integer as key") from None
        named = decimals.whole(value) if isinstance(value, Decimal) else value
        if not isinstance(named, str | int) or isinstance(named, bool):
            raise Mismatch(Code.TYPE, f"expected a JSON text or integer as key, got {json_kind(key.strip())}")
        if not validator.is_valid(value):
            raise Mismatch(Code.SCHEMA, "expected a key that is valid by its schema")
        if isinstance(named, str) and "\0" in named:
            raise Mismatch(Code.NUL, "expected a key without NUL, which Postgres cannot hold")
        return check_event_id(str(named))

    return read


def schema_validator(schema: WriterSchema) -> Any:
    """Return the validator of documents by the schema.

    Raises:
        SchemaProblem: it is no JSON Schema, or refers to one that is not there.
    """
    try:
        references = [(each.name, msgspec.json.decode(each.text)) for each in schema.references]
        registry = jsonschema_rs.Registry(references)
        return jsonschema_rs.validator_for(schema.text, registry=registry, validate_formats=False, offline=True)
    except jsonschema_rs.ValidationError as error:
        raise SchemaProblem(f"it is no JSON Schema: {outcome.printable(error.message, 200)}") from None
    except (ValueError, jsonschema_rs.ReferencingError, msgspec.DecodeError) as error:
        raise SchemaProblem(f"it is no JSON Schema: {outcome.printable(str(error), 200)}") from None
