"""Documents -> JSON by a JSON Schema, which jsonschema-rs checks, with every digit as it is."""

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

from offset_ledger.decoding.json_schema.decoder import schema_validator
from offset_ledger.decoding.outcome import SchemaProblem
from offset_ledger.errors import ConfigurationError
from offset_ledger.model.writer_schema import WriterSchema
from offset_ledger_kit.publishing.formats.exact import Misfit, refuse
from offset_ledger_kit.publishing.formats.framing import Cell, Codec, Unreadable

_encode = msgspec.json.Encoder(decimal_format="number").encode
_decode = msgspec.json.Decoder(float_hook=Decimal).decode
_LARGE = 2**63


class JsonCodec(Codec):
    """The documents of a JSON Schema.

    Raises:
        ConfigurationError: it is no JSON Schema.
    """

    def __init__(self, schema: WriterSchema) -> None:
        try:
            self._valid = schema_validator(schema)
        except SchemaProblem as problem:
            raise ConfigurationError(f"{problem}; correct it") from None
        root = msgspec.json.decode(schema.text)
        properties = root.get("properties") if isinstance(root, dict) else None
        cells = {}
        for name, said in properties.items() if isinstance(properties, dict) else ():
            # Fields stay texts; a stamp goes into a property that may be one.
            kinds = said.get("type", "string") if isinstance(said, dict) else "string"
            cells[name] = Cell(string=kinds == "string" or (isinstance(kinds, list) and "string" in kinds))
        self.cells = cells

    def write(self, value: Any) -> bytes:
        """Return the JSON of the value; raises Misfit if the schema refuses it."""
        try:
            data = _encode(_exact(value))
        except (TypeError, ValueError, OverflowError) as error:
            raise Misfit(f"expected what JSON can say: {error}") from None
        self._check(_decode(data))
        return data

    def read(self, data: bytes) -> Any:
        """Return the document in the bytes; raises Unreadable if the schema refuses it."""
        try:
            document = _decode(data)
            self._check(document)
        except (msgspec.DecodeError, UnicodeDecodeError, ArithmeticError, Misfit) as error:
            raise Unreadable(str(error)) from None
        return document

    def _check(self, document: Any) -> None:
        for error in self._valid.iter_errors(document):
            misfit = Misfit(str(error.message))
            misfit.steps = [*reversed(error.instance_path)]
            raise misfit


def _exact(value: Any) -> Any:
    """Return the value as msgspec writes it unchanged: it makes null of NaN, and has no integer beyond 64 bits."""
    if isinstance(value, Mapping):
        return {name: _exact(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_exact(each) for each in value]
    if isinstance(value, float | Decimal) and not math.isfinite(value):
        refuse("a number of JSON", value)
    return Decimal(value) if type(value) is int and not -_LARGE <= value < _LARGE else value
