"""The codec of a JSON Schema: a document is written as JSON if it is valid, with every digit of its numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

from offset_ledger.decoding.json_schema.decoder import schema_validator
from offset_ledger.decoding.schema_problem import SchemaProblem
from offset_ledger.errors import ConfigurationError
from offset_ledger.model.writer_schema import WriterSchema
from offset_ledger.reliability.publishing.formats.cells import Cell
from offset_ledger.reliability.publishing.formats.framing import Codec, Unreadable
from offset_ledger.reliability.publishing.formats.misfit import Misfit, refuse

_encode = msgspec.json.Encoder(decimal_format="number").encode
_decode = msgspec.json.Decoder(float_hook=Decimal).decode
_LARGE = 2**63


def json_codec(schema: WriterSchema) -> Codec:
    """Compile it.

    Raises:
        ConfigurationError: it is no JSON Schema.
    """
    try:
        valid = schema_validator(schema)
    except SchemaProblem as problem:
        raise ConfigurationError(f"{problem}; correct it") from None

    def write(value: Any) -> bytes:
        data = _written(value)
        check(_decode(data))
        return data

    def check(document: Any) -> None:
        for error in valid.iter_errors(document):
            misfit = Misfit(str(error.message))
            misfit.steps = [*reversed(error.instance_path)]
            raise misfit

    def read(data: bytes) -> Any:
        try:
            document = _decode(data)
            check(document)
        except (msgspec.DecodeError, UnicodeDecodeError, ArithmeticError, Misfit) as error:
            raise Unreadable(str(error)) from None
        return document

    return Codec(write, read, cells=_cells(schema))


def _written(value: Any) -> bytes:
    try:
        return _encode(_exact(value))
    except (TypeError, ValueError, OverflowError) as error:
        raise Misfit(f"expected what JSON can say: {error}") from None


def _exact(value: Any) -> Any:
    """The value as msgspec writes it without changing it: it makes null of NaN, and has no integer beyond 64 bits."""
    if isinstance(value, Mapping):
        return {name: _exact(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_exact(each) for each in value]
    if isinstance(value, float | Decimal) and not math.isfinite(value):
        refuse("a number of JSON", value)
    return Decimal(value) if type(value) is int and not -_LARGE <= value < _LARGE else value


def _cells(schema: WriterSchema) -> dict[str, Cell]:
    """Fields stay texts; a stamp goes into a property that may be one."""
    root = msgspec.json.decode(schema.text)
    properties = root.get("properties") if isinstance(root, dict) else None
    if not isinstance(properties, dict):
        return {}
    return {name: Cell(string=_takes_texts(said)) for name, said in properties.items()}


def _takes_texts(said: Any) -> bool:
    kinds = said.get("type", "string") if isinstance(said, dict) else "string"
    return kinds == "string" or (isinstance(kinds, list) and "string" in kinds)
