"""The conversions of JSON: for each kind of value the reading of one text, and of a column of them."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from types import GenericAlias
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.decoding import counts, decimals, jsonb, kinds
from offset_ledger.decoding.json.unique import duplicate_path
from offset_ledger.decoding.jsonb import number, shown
from offset_ledger.decoding.kinds import INTEGER_BITS, Built, ColumnKind, as_flags, kept, staged_type
from offset_ledger.decoding.outcome import EMPTY, Code, Mismatch, printable
from offset_ledger.decoding.texts import base64, text, text_form

Values = Sequence[Any]

_KINDS = {b'"': "text", b"{": "object", b"[": "array", b"t": "boolean", b"f": "boolean", b"n": "null"}
_INTEGER = re.compile(rb"-?[0-9]+")
_PLAIN_NUMBER = r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?$"
_NO_DOCUMENT = r"\\u0000|(?:^|[:,\[ \t\r\n])-?[0-9.]+[eE][-+]?[0-9]{5}|[0-9]{1000}"
_MAX_SAFE_DIGITS = 60
_SEPARATOR = b"\x01"  # JSON has no control characters but blanks
_LITERAL = re.compile(r"true|false|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_TRANSFORMS: Mapping[str, Callable[[str], str]] = {"lower": str.lower, "upper": str.upper, "trim": str.strip}
_encode = msgspec.json.Encoder().encode
list_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode
_string = msgspec.json.Decoder(str).decode


@dataclass(frozen=True, slots=True)
class Conversion:
    """The reading of values of a kind: ``read`` defines it, for the text of one value, which is valid JSON in UTF-8.

    msgspec decodes a member to ``wire``, and ``build`` makes a column of what it gave.
    """

    read: Callable[[bytes], Any]
    wire: Any
    build: Callable[[Values], Built]


def conversion(kind: ColumnKind, by_schema: bool = False) -> Conversion:
    """Return the conversion to values of that kind; ``by_schema``: integers are what they are in JSON Schema."""
    digits = _whole_number if by_schema else _integer_text
    if kind.item:
        return _of_lists(kind, conversion(kind.item, by_schema))
    if kind != kind.plain:
        of_json, of_text = conversion(kind.plain, by_schema).read, from_text(kind)

        def read(raw: bytes) -> Any:
            return of_json(raw) if kind.coerce and raw[:1] != b'"' else of_text(string(raw))

        return _one_by_one(read, kind)
    match kind.name:
        case "event_id":
            return Conversion(partial(_event_id, digits=digits), str | int, _event_ids)
        case "boolean":
            return Conversion(boolean, bool, lambda values: (pa.array(values, pa.bool_()), None))
        case "jsonb" if kind.encoding:
            return _one_by_one(lambda raw: parsed(string(raw), kind) if raw[:1] == b'"' else jsonb.document(raw), kind)
        case "jsonb":
            return Conversion(jsonb.document, msgspec.Raw, _documents)
        case "numeric" if kind.encoding:
            return _one_by_one(partial(_of_bits, kind=kind, scale=int(kind.encoding[len("unscaled(") : -1] or 0)), kind)
        case "numeric":
            pattern, type_ = _sure_numbers(kind.args), staged_type(kind)
            return Conversion(
                lambda raw: _not_finite(raw, kind.args) or numeric(raw, *kind.args),
                msgspec.Raw,
                lambda values: _numerics(values, pattern, type_),
            )
        case "real":
            return Conversion(partial(_floating, single=True), msgspec.Raw, lambda values: _floats(values, 6))
        case _ if kind.judged:
            return _one_by_one(partial(_judged, kind=kind, digits=digits), kind)
        case "double precision":
            return Conversion(_floating, msgspec.Raw, lambda values: _floats(values, 15))
    if kind.name in INTEGER_BITS:
        bits = INTEGER_BITS[kind.name]
        wire: Any = Annotated[int, msgspec.Meta(ge=-(1 << (bits - 1)), le=(1 << (bits - 1)) - 1)]
        type_ = kinds.INTEGERS[kind.name]
        return Conversion(lambda raw: _integer(raw, bits, digits), wire, lambda values: (pa.array(values, type_), None))
    count = counts.reader(kind)
    if kind.encoding == kinds.EPOCH_DAYS:
        wire = Annotated[int, msgspec.Meta(ge=kinds.FIRST_DAY, le=kinds.LAST_DAY)]
        return Conversion(
            lambda raw: count(_integer(raw, 64, digits)),
            wire,
            lambda values: (pa.array(values, pa.int32()).cast(pa.date32()), None),
        )
    if kind.unit and (kind.name == "time" or kind.unit < 1000):
        wire = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
        return Conversion(
            lambda raw: count(_integer(raw, 64, digits)), wire, lambda values: kinds.read_each(values, count, kind)
        )
    if kind.unit:
        unit = kind.unit // 1000
        wire = Annotated[int, msgspec.Meta(ge=kinds.FIRST_MOMENT // unit, le=kinds.LAST_MOMENT // unit)]
        return Conversion(
            lambda raw: count(_integer(raw, 64, digits)),
            wire,
            lambda values: (pc.multiply(pa.array(values, pa.int64()), unit).cast(kinds.MOMENT), None),
        )
    form = text_form(kind)
    assert form is not None
    return Conversion(
        lambda raw: form.read(string(raw, form.wanted)), str, lambda values: form.build(pa.array(values, pa.string()))
    )


def _one_by_one(read: Callable[[bytes], Any], kind: ColumnKind) -> Conversion:
    return Conversion(read, msgspec.Raw, lambda values: kinds.read_each(_raws(values), read, kind))


def _of_lists(kind: ColumnKind, item: Conversion) -> Conversion:
    of_text = None if kind.split is None else from_text(kind)

    def read(raw: bytes) -> list[Any]:
        if of_text:
            values: list[Any] = of_text(string(raw))
            return values
        jsonb.check_size(raw)
        return kinds.list_of(_raws(list_elements(expect(raw, "array", "array"))), item.read)

    def build(values: Values) -> Built:
        elements, flags = item.build(kinds.in_lists(values))
        column = kinds.listed(elements, values)
        if flags is None:
            return column, None
        sure = np.ones(len(values), np.bool_)
        sure[pc.list_parent_indices(column).filter(pa.array(~flags)).to_numpy()] = False
        return column, sure

    if of_text:
        return _one_by_one(read, kind)
    element = msgspec.Raw if item.wire is msgspec.Raw else item.wire | None
    return Conversion(read, GenericAlias(list, (element,)), build)


def from_text(kind: ColumnKind) -> Callable[[str], Any]:
    """Return how a text becomes a value of that kind: changed, then split, or read as text or as JSON writes it."""
    form = text_form(kind.plain)
    in_json = None if form or kind.split is not None else conversion(kind.plain)
    element = from_text(kind.item) if kind.item else None
    is_number = kind.name in ("numeric", "real", "double precision")

    def changed(value: str) -> str:
        for step in kind.transform:
            value = _TRANSFORMS[step](value)
        return value

    def read(value: str) -> Any:
        if value == kind.unsent:
            return value
        if kind.split is not None:
            parts = value.split(kind.split) if value else []
            if element:
                return kinds.list_of(parts, element)
            return jsonb.document(_encode([changed(part) for part in parts]))
        value = changed(value)
        if form:
            return form.read(value)
        if is_number and value in decimals.NOT_FINITE:
            value = f'"{value}"'
        elif not _LITERAL.fullmatch(value):
            raise Mismatch(Code.FORMAT, f"expected {kind.name} in a text, got {printable(value) or EMPTY}")
        assert in_json is not None
        return in_json.read(value.encode())

    return read


def json_kind(raw: bytes) -> str:
    """Return JSON's name for a value with this text."""
    return _KINDS.get(raw[:1], "number")


def expect(raw: bytes, kind: str, wanted: str) -> bytes:
    """Return the text, if it is of that kind."""
    if (actual := json_kind(raw)) != kind:
        raise Mismatch(Code.TYPE, f"expected {wanted}, got {actual}")
    return raw


def boolean(raw: bytes) -> bool:
    """Return ``true`` or ``false``."""
    return expect(raw, "boolean", "boolean") == b"true"


def string(raw: bytes, wanted: str = "text") -> str:
    """Return the characters of a JSON string."""
    return _string(expect(raw, "text", wanted))


def parsed(value: str, kind: ColumnKind) -> str:
    """Return the JSON document that a text is, if it is one; a placeholder for a value that was not sent stays text."""
    if value == kind.unsent:
        return _encode(value).decode()
    raw = value.encode()
    try:
        (document,) = list_elements(b"[" + raw + b"]")
    except (ValueError, msgspec.DecodeError, RecursionError):
        raise Mismatch(Code.FORMAT, f"expected a JSON document in a text, got {printable(value) or EMPTY}") from None
    jsonb.check_depth(raw)
    if path := duplicate_path(value):
        raise Mismatch(Code.DUPLICATE_KEY, f"expected each member once in the text, got {path} again")
    return jsonb.document(bytes(document))


def numeric(raw: bytes, precision: int | None = None, scale: int = 0) -> Decimal:
    """Return a decimal that fits ``numeric(precision, scale)``, or Postgres's own limits, without rounding."""
    return decimals.numeric(number(expect(raw, "number", "number")), lambda: shown(raw), precision, scale)


Digits = Callable[[bytes], str]
"""The decimal text of an integer."""


class _VariableScale(msgspec.Struct):
    scale: int
    value: str


_variable_scale = msgspec.json.Decoder(_VariableScale).decode


def _of_bits(raw: bytes, kind: ColumnKind, scale: int) -> Decimal:
    """Return a decimal that a source writes in bits: a negative number of 64 bits, or an unscaled value in base64."""
    if kind.encoding == "unsigned":
        unscaled = _integer(raw, 64, _integer_text) % (1 << 64)
    elif kind.encoding == "unscaled":
        try:
            struct = _variable_scale(raw)
        except msgspec.ValidationError:
            raise Mismatch(Code.TYPE, f"expected a struct of scale and value, got {shown(raw)}") from None
        unscaled, scale = int.from_bytes(base64(struct.value), signed=True), struct.scale
    else:
        unscaled = int.from_bytes(base64(string(raw, "base64")), signed=True)
    if abs(scale) > decimals.MAX_DIGITS_AFTER_POINT:
        raise Mismatch(Code.RANGE, f"expected a number within Postgres's numeric, got one of scale {scale}")
    return decimals.numeric(decimals.scaled(unscaled, scale), lambda: shown(raw), *kind.args)


def _event_id(raw: bytes, digits: Digits) -> str:
    """A text or an integer, as the text that names the event."""
    return kinds.check_event_id(digits(raw) if raw[:1] in b"-0123456789" else text(string(raw)))


def _integer_text(raw: bytes) -> str:
    """Return an integer as it is written; ``1.0`` and ``1e2`` are not integers."""
    expect(raw, "number", "integer")
    if not _INTEGER.fullmatch(raw):
        raise Mismatch(Code.TYPE, f"expected integer, got {shown(raw)}")
    return "0" if raw == b"-0" else raw.decode()


def _whole_number(raw: bytes) -> str:
    """An integer as JSON Schema knows it, by its value: ``1.0`` and ``1e2`` are integers."""
    whole = decimals.whole(number(expect(raw, "number", "integer")))
    if whole is None:
        raise Mismatch(Code.TYPE, f"expected integer, got {shown(raw)}")
    return whole


def _integer(raw: bytes, bits: int, digits: Digits) -> int:
    bound, written = 1 << (bits - 1), digits(raw)
    if len(written) > 20 or not -bound <= (value := int(written)) < bound:
        raise Mismatch(Code.RANGE, f"expected integer of {bits} bits, got {shown(raw)}")
    return value


def _floating(raw: bytes, single: bool = False) -> float:
    """A float whose shortest text is the very number that was written."""
    if word := _not_finite(raw):
        return float(word)
    written, value = number(expect(raw, "number", "number")), float(raw)
    shortest = decimals.single_text(value) if single else repr(value)
    if Decimal(shortest) == written:
        return decimals.single(value) if single else value
    name = "real" if single else "double precision"
    code = Code.PRECISION if shortest not in ("0.0", "-0.0", "inf", "-inf") else Code.RANGE
    raise Mismatch(code, f"expected {name}, got {shown(raw)}, which it cannot hold")


def _not_finite(raw: bytes, args: tuple[int, ...] = ()) -> str | None:
    """Return NaN or an infinity, which JSON has only as text; None for anything else."""
    word = decimals.NOT_FINITE.get(raw[1:-1].decode(errors="replace")) if raw[:1] == b'"' else None
    if word and args and word != "NaN":
        raise Mismatch(Code.RANGE, f"expected numeric({args[0]},{args[1]}), got {word}")
    return word


def _judged(raw: bytes, kind: ColumnKind, digits: Digits) -> str:
    """Return a text, or a boolean as it is written, and a number if the file gives its meaning."""
    if kind.unit:
        return counts.interval(_integer(raw, 64, digits), kind)
    is_number = json_kind(raw) == "number"
    if is_number and not kind.encoding:
        raise Mismatch(Code.TYPE, kinds.unitless(kind, f"the number {shown(raw)}"))
    return raw.decode() if is_number or raw[:1] in b"tf" else text(string(raw, "text or a boolean"))


def _event_ids(values: Values) -> Built:
    try:
        column = pa.array(values, pa.string())
    except pa.ArrowTypeError:
        column = pa.array([value if isinstance(value, str) else str(value) for value in values], pa.string())
    return column, kinds.event_ids(column)


def _raws(values: Values) -> list[bytes | None]:
    texts = (None if value is None else bytes(value) for value in values)
    return [None if text == b"null" else text for text in texts]


def _raw_texts(values: Values) -> pa.StringArray:
    """The JSON texts as one column, without an object for each; null where the JSON is null."""
    if not values:
        return pa.array([], pa.string())
    joined = _SEPARATOR.join([b"null" if value is None else value for value in values])
    column = pc.split_pattern(pa.array([joined], pa.binary()), _SEPARATOR).flatten().cast(pa.string())
    return pc.if_else(pc.equal(column, "null"), None, column)


def _documents(values: Values) -> Built:
    column = _raw_texts(values)
    return column, as_flags(pc.invert(pc.match_substring_regex(column, _NO_DOCUMENT)))


def _sure_numbers(args: tuple[int, ...]) -> str:
    """Return a pattern of numbers that surely fit ``numeric`` with these arguments."""
    if not args:
        return r"^-?(?:0|[1-9][0-9]{0,99})(?:\.[0-9]{1,99})?$"
    before, after = min(args[0] - args[1], _MAX_SAFE_DIGITS), min(args[1], _MAX_SAFE_DIGITS)
    whole = f"0|[1-9][0-9]{{0,{before - 1}}}" if before else "0"
    fraction = rf"(?:\.[0-9]{{1,{after}}})?" if after else ""
    return f"^-?(?:{whole}){fraction}$"


def _numerics(values: Values, pattern: str, type_: pa.DataType) -> Built:
    column = _raw_texts(values)
    fitting, flags = kept(column, pc.match_substring_regex(column, pattern))
    return fitting.cast(type_), flags


def _floats(values: Values, safe_digits: int) -> Built:
    """Build floats: ``safe_digits`` decimal digits survive in any float; longer texts are compared with Python's."""
    column = _raw_texts(values)
    short = pc.less_equal(pc.binary_length(column), safe_digits)
    flags = as_flags(pc.and_(short, pc.match_substring_regex(column, _PLAIN_NUMBER)))
    if flags is not None and safe_digits == 15:
        doubtful = np.flatnonzero(~flags)
        flags[doubtful] = [value == _double_text(value) for value in column.take(pa.array(doubtful)).to_pylist()]
    fitting = column if flags is None else pc.if_else(pa.array(flags), column, None)
    return fitting.cast(pa.float32() if safe_digits == 6 else pa.float64()), flags


def _double_text(value: str) -> str | None:
    try:
        return repr(float(value))
    except ValueError:
        return None
