"""Documents -> Avro, by fastavro; before that each value becomes one of its type, if it is that value exactly."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any

from fastavro import parse_schema, schemaless_reader, schemaless_writer

from offset_ledger.errors import ConfigurationError, error_line
from offset_ledger.model.writer_schema import WriterSchema
from offset_ledger_kit.publishing.formats import exact
from offset_ledger_kit.publishing.formats.exact import Misfit, at, refuse, shown
from offset_ledger_kit.publishing.formats.framing import Cell, Codec, Unreadable

_BITS = {"int": 32, "long": 64}
_UNITS = {"millis": 1_000_000, "micros": 1_000, "nanos": 1}
_TEXTS = {"string", "bytes", "enum", "fixed"}


class AvroCodec(Codec):
    """The documents of a schema of Avro.

    Raises:
        ConfigurationError: it is no schema of Avro.
    """

    def __init__(self, schema: WriterSchema) -> None:
        named: dict[str, Any] = {}
        try:
            for reference in schema.references:
                parse_schema(json.loads(reference.text), named_schemas=named)
            self._root: Any = parse_schema(json.loads(schema.text), named_schemas=named)
        except Exception as error:  # noqa: BLE001 - KeyError, TypeError and others, by what is wrong in it
            wrong = f"fastavro, which writes it, refuses the schema ({error_line(error)})"
            raise ConfigurationError(f"{wrong}; correct it") from None
        self._values = _Values(named)
        record = self._values.resolved(self._root)
        if record["type"] in ("record", "error"):
            self.cells = {each["name"]: self._cell(each["type"]) for each in record["fields"]}
        self.cell = self._cell(self._root)

    def write(self, value: Any) -> bytes:
        """Return the Avro binary form of the value."""
        file = BytesIO()
        schemaless_writer(file, self._root, self._values.value(self._root, value), strict=True)
        return file.getvalue()

    def read(self, data: bytes) -> Any:
        """Return the value in the bytes; raises Unreadable if they are none of this schema."""
        file = BytesIO(data)
        try:
            value = schemaless_reader(file, self._root, None)
        except Exception as error:  # noqa: BLE001 - EOFError, IndexError and others, by what is wrong with the bytes
            raise Unreadable(f"expected a value of the schema ({error_line(error)})") from None
        if left := len(data) - file.tell():
            raise Unreadable(f"expected a value of the schema, found {left} bytes after it")
        return value

    def _cell(self, said: Any) -> Cell:
        branches = [*self._values.branches(said)]
        return Cell(
            text=any(each["type"] in _TEXTS and each.get("logicalType") != "decimal" for each in branches),
            null=any(each["type"] == "null" for each in branches),
            string=any(each["type"] == "string" for each in branches),
            moment=any(each["type"] == "long" for each in branches)
            and any(str(each.get("logicalType")).startswith("timestamp-") for each in branches),
        )


@dataclass(frozen=True, slots=True)
class _Values:
    """The values for fastavro, by the types that it has resolved; ``named`` are those with a full name.

    ``default``: values are what a schema gives as default of a field, of the type alone whatever its logical type;
    bytes are a text of as many characters then.
    """

    named: Mapping[str, Mapping[str, Any]]
    default: bool = False

    def resolved(self, said: Any) -> Mapping[str, Any]:
        """Return a type that is no union as a mapping whose ``type`` is a name."""
        while not isinstance(said, dict) or not isinstance(said["type"], str) or said["type"] in self.named:
            if isinstance(said, list):
                return {"type": "union", "branches": said}
            name = said["type"] if isinstance(said, dict) else said
            said = self.named.get(name, {"type": name}) if isinstance(name, str) else name
        return said

    def branches(self, said: Any) -> Iterator[Mapping[str, Any]]:
        """Return the type, or those of a union."""
        kind = self.resolved(said)
        if kind["type"] != "union":
            yield kind
        for each in kind.get("branches", ()):
            yield from self.branches(each)

    def value(self, said: Any, value: Any) -> Any:
        """Return the value of the type.

        Raises:
            Misfit: it is none, with the path of the part that is not.
        """
        kind = self.resolved(said)
        match kind["type"]:
            case "union":
                return self._union(kind["branches"], value)
            case "record" | "error":
                if not isinstance(value, Mapping):
                    refuse(f"record {kind['name']}", value)
                row = {each["name"]: at(each["name"], self._member, each, value) for each in kind["fields"]}
                if unknown := next((name for name in value if name not in row), None):
                    misfit = Misfit(f"expected a field of {kind['name']}, found none of this name")
                    misfit.steps.append(unknown)
                    raise misfit
                return row
            case "array":
                return exact.items(value, lambda each: self.value(kind["items"], each))
            case "map":
                made = exact.members(value, "map", lambda each: self.value(kind["values"], each))
                return {exact.text(name, "string"): each for name, each in made.items()}
            case _:
                return self._scalar(kind, value)

    def _member(self, field: Mapping[str, Any], value: Mapping[str, Any]) -> Any:
        name = field["name"]
        if name in value:
            return self.value(field["type"], value[name])
        if "default" in field:
            return replace(self, default=True).value(field["type"], field["default"])
        raise Misfit("expected a value, found none, and the schema has no default")

    def _union(self, branches: list[Any], value: Any) -> tuple[str, Any]:
        """Return the value with the name of the only branch that takes it, as it is or in an object with that name.

        A default is of the first branch that takes it.
        """
        fits, misfits = list[tuple[str, Any]](), dict[str, Misfit]()
        for branch in branches:
            name = _branch_name(branch)
            inside = isinstance(value, Mapping) and len(value) == 1 and name in value and name != "null"
            for inner in [value, value[name]] if inside else [value]:
                try:
                    fits.append((name, self.value(branch, inner)))
                except Misfit as misfit:
                    misfits[name] = misfit
        if len(fits) == 1 or (fits and self.default):
            return fits[0]
        if fits:
            both = " and ".join(dict.fromkeys(name for name, _ in fits))
            raise Misfit(
                f'expected a value of one branch, found {shown(value)}, which fits {both}; write {{"{fits[0][0]}": …}}'
            )
        others = [name for name in misfits if name != "null"]
        if value is not None and len(others) == 1:
            raise misfits[others[0]]
        return refuse(f"one of {', '.join(map(_branch_name, branches))}", value)

    def _scalar(self, kind: Mapping[str, Any], value: Any) -> Any:
        logical = None if self.default else kind.get("logicalType")
        match kind["type"]:
            case "null":
                return None if value is None else refuse("null", value)
            case "boolean":
                return exact.boolean(value)
            case "int" | "long" as name:
                return _whole(name, logical, value)
            case "float" | "double" as name:
                if self.default and type(value) in (int, float):
                    return float(value)
                return exact.floating(value, name, name == "float")
            case "enum":
                known = isinstance(value, str) and value in kind["symbols"]
                return value if known else refuse(f"a symbol of enum {kind['name']}", value)
            case "string":
                return str(exact.uuid(value)) if logical == "uuid" else exact.text(value, "string")
            case _:
                return self._bytes(kind, logical, value)

    def _bytes(self, kind: Mapping[str, Any], logical: str | None, value: Any) -> Any:
        size = kind.get("size") if kind["type"] == "fixed" else None
        name = "bytes" if size is None else f"fixed {kind['name']} of {size} bytes"
        if logical == "decimal" and type(kind.get("precision")) is int:  # else it is none, and ignored as Avro says
            return exact.decimal(value, kind["precision"], int(kind.get("scale", 0)))
        if (logical, size) == ("uuid", 16):
            return exact.uuid(value).bytes
        if not self.default:
            data = exact.binary(value, name)
        elif isinstance(value, str) and all(character <= "\xff" for character in value):
            data = value.encode("latin-1")
        else:
            refuse("a text of bytes", value)
        return data if size in (None, len(data)) else refuse(name, value)


def _whole(kind: str, logical: str | None, value: Any) -> int:
    name, _, unit = (logical or "").rpartition("-")
    if (kind, logical) == ("int", "date"):
        return exact.day(value)
    if (kind, logical) in (("int", "time-millis"), ("long", "time-micros")):
        return exact.clock(value, _UNITS[unit])
    if kind == "long" and name in ("timestamp", "local-timestamp") and unit in _UNITS:
        return exact.moment(value, _UNITS[unit], name != "timestamp")
    bound = 2 ** (_BITS[kind] - 1)
    return exact.integer(value, kind, -bound, bound - 1)


def _branch_name(said: Any) -> str:
    if isinstance(said, str):
        return said
    return str(said.get("name") or (said["type"] if isinstance(said["type"], str) else _branch_name(said["type"])))
