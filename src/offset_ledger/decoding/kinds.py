"""The kinds of values that a row has, declared types with their encodings, and the Arrow columns that hold them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from offset_ledger.decoding.outcome import Code, Flags, Mismatch
from offset_ledger.pipeline_file.pipeline import EVENT_ID, Column, ColumnType, RecordShape, is_judged

Built = tuple[pa.Array, Flags | None]
"""A staged column, and a flag for each value that certainly is what it should be; None where all are.

False only means that the value is read by itself: a false alarm costs time, nothing else.
"""

MAX_EVENT_ID_BYTES = 1024
INTEGER_BITS = {"smallint": 16, "integer": 32, "bigint": 64}
_NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
EPOCH_DAYS = "epoch_days"
FIRST_DAY, LAST_DAY = -719_162, 2_932_896  # years 1 to 9999, since 1970
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_MOMENT, LAST_MOMENT = -62_135_596_800_000_000, 253_402_300_799_999_999  # years 1 to 9999, in µs since 1970
MOMENT = pa.timestamp("us", "UTC")
TIME = pa.time64("us")
UUID_TYPE = pa.binary(16)
INTEGERS = {"smallint": pa.int16(), "integer": pa.int32(), "bigint": pa.int64()}
DECIMAL_DIGITS = 38  # of Arrow's decimal128, which has one scale
_STAGED = {
    **INTEGERS,
    "real": pa.float32(),
    "double precision": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "time": TIME,
    "timestamptz": MOMENT,
    "uuid": UUID_TYPE,
    "bytea": pa.binary(),
}
LACKING = ("numeric", "date", "time", "timestamptz")
"""Types with values that Arrow's types and Python's lack; such a value is a text, and so is its column then."""
_PUBLISH_AT = ColumnType("timestamptz")
_DEFAULT_ENCODING = {"timestamptz": "rfc3339", "bytea": "base64"}


@dataclass(frozen=True, slots=True)
class ColumnKind:
    """A type with its encoding; ``name`` is Postgres's, or ``event_id``; that of an array ends in ``[]``.

    A text is changed, split into a list, or coerced, where other values are taken too; nothing of a ``plain`` kind is.
    """

    name: str
    args: tuple[int, ...]
    encoding: str
    transform: tuple[str, ...] = ()
    split: str | None = None
    coerce: bool = False
    round: bool = False  # to what the type holds
    far: bool = False  # whether a day or a moment may be one of any year, or infinite
    unsent: str | None = None  # a text that stands for a value that was not sent, and is not changed

    @property
    def plain(self) -> "ColumnKind":
        """The kind of the values without the changes to texts."""
        return replace(self, transform=(), split=None, coerce=False)

    @property
    def unit(self) -> int:
        """The nanoseconds in one unit that the encoding counts; 0 where it counts none."""
        return _NANOSECONDS.get(self.encoding.removeprefix("epoch_"), 0)

    @property
    def judged(self) -> bool:
        """Return whether the values are texts that Postgres checks later."""
        return not self.item and is_judged(self.name)

    @property
    def item(self) -> "ColumnKind | None":
        """The kind of an array's elements, with the changes to them if they are texts; None for any other kind."""
        name, brackets, _ = self.name.partition("[]")
        return replace(self, name=name, split=None) if brackets else None


def kinds(record: RecordShape) -> tuple[ColumnKind, ...]:
    """The kind of every slot of the row: those of the key, publish_at, then the declared columns."""
    publish_at = replace(_kind(_PUBLISH_AT, record.publish_at_encoding), round=record.publish_at_round)
    unsent = record.unavailable.decode(errors="replace") if record.unavailable else None
    declared = (replace(kind_of(column), unsent=unsent) for column in record.columns)
    return *map(kind_of, record.key_columns), publish_at, *declared


def kind_of(column: Column) -> ColumnKind:
    """The kind of a declared column."""
    kind = _kind(column.type, column.encoding)
    return replace(
        kind, transform=column.transform, split=column.split, coerce=column.coerce, round=column.round, far=column.far
    )


def _kind(type_: ColumnType, encoding: str) -> ColumnKind:
    encoding = encoding or _DEFAULT_ENCODING.get(type_.name.removesuffix("[]"), "")
    return ColumnKind(type_.name, type_.args, encoding)


def unitless(kind: ColumnKind, got: str) -> str:
    """Return why a number is no value of a type that Postgres reads from text, and what to write in the file."""
    if kind.name == "interval":
        return f"expected a text for interval, got {got} of an unknown unit: write its encoding (s, ms, us or ns)"
    return f"expected a text for {kind.name}, got {got}: write encoding: number to let Postgres read it as it is"


EVENT_ID_KIND = _kind(EVENT_ID, "")


def check_event_id(text: str) -> str:
    """The text, if it can be a key: not empty, and short enough for an index."""
    if not text:
        raise Mismatch(Code.LENGTH, "expected an event id, got an empty text")
    if (size := len(text.encode())) > MAX_EVENT_ID_BYTES:
        raise Mismatch(Code.LENGTH, f"expected an event id of at most {MAX_EVENT_ID_BYTES} bytes, got {size}")
    return text


def staged_type(kind: ColumnKind) -> pa.DataType:
    """Return the type of the staged column: text for jsonb, and for a numeric that no Arrow decimal holds exactly."""
    if kind.item:
        return pa.list_(staged_type(kind.item))
    if kind.name == "numeric" and kind.args and kind.args[0] <= DECIMAL_DIGITS:
        return pa.decimal128(*kind.args)
    return _STAGED.get(kind.name, pa.string())


def staged(kind: ColumnKind, values: Sequence[Any]) -> pa.Array:
    """The decoder's Python values as a column of the staged type, or of texts, where one has no value of that type."""
    type_ = staged_type(kind)
    if kind.item:
        return listed(staged(kind.item, in_lists(values)), values)
    if kind.name in LACKING and not pa.types.is_string(type_) and any(isinstance(each, str) for each in values):
        odd = pa.array([value if isinstance(value, str) else None for value in values], pa.string())
        usual = staged(kind, [None if isinstance(value, str) else value for value in values])
        return pc.coalesce(odd, as_texts(usual))
    if kind.name == "uuid":
        values = [None if value is None else value.bytes for value in values]
    elif kind.name == "numeric" and pa.types.is_string(type_):
        values = [None if value is None else str(value) for value in values]
    return pa.array(values, type_)


def read_each(values: Sequence[Any], read: Callable[[Any], Any], kind: ColumnKind) -> Built:
    """Build a column of values that are read one by one."""
    made, flags = list[Any](), np.ones(len(values), np.bool_)
    for place, value in enumerate(values):
        try:
            made.append(None if value is None else read(value))
        except Mismatch:
            made.append(None)
            flags[place] = False
    column = staged(kind, made)
    if column.type != staged_type(kind):
        flags &= [not any(isinstance(each, str) for each in _elements(value)) for value in made]
        column = staged(kind, [value if flag else None for value, flag in zip(made, flags, strict=True)])
    return column, flags


def _elements(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [value]


def as_texts(column: pa.Array) -> pa.Array:
    """The column, or the elements of its lists, as texts that Postgres reads."""
    if pa.types.is_list(column.type):
        return listed(as_texts(column.flatten()), column.to_pylist())
    if pa.types.is_timestamp(column.type):
        return pc.binary_join_element_wise(column.cast(pa.timestamp("us")).cast(pa.string()), "Z", "")
    return column.cast(pa.string())


Lists = Sequence[Sequence[Any] | None]


def in_lists(lists: Lists) -> list[Any]:
    """The elements of all lists, one after the other."""
    return [element for each in lists if each is not None for element in each]


def listed(elements: pa.Array, lists: Lists) -> pa.ListArray:
    """A column of lists as long as these, whose elements the other column has one after the other."""
    offsets = np.cumsum([0, *(0 if each is None else len(each) for each in lists)]).astype(np.int32)
    absent = pa.array([each is None for each in lists], pa.bool_())
    return pa.ListArray.from_arrays(pa.array(offsets), elements, mask=absent)


def list_of(elements: Sequence[Any], read: Callable[[Any], Any]) -> list[Any]:
    """Read the elements of one list, None being NULL; the reason against one names it."""
    values = list[Any]()
    for number, element in enumerate(elements, start=1):
        try:
            values.append(None if element is None else read(element))
        except Mismatch as mismatch:
            at = f"element {number} of {len(elements)}"
            raise Mismatch(mismatch.code, f"{at}: {mismatch.detail}") from None
    return values


def event_ids(column: pa.StringArray) -> Flags | None:
    """Flag the texts that can name an event."""
    size = pc.binary_length(column)
    fits = pc.and_(pc.greater(size, 0), pc.less_equal(size, MAX_EVENT_ID_BYTES))
    if not free_of_nul(column):
        fits = pc.and_(fits, pc.invert(pc.match_substring(column, "\0")))
    return as_flags(fits)


def moments(column: pa.TimestampArray) -> Flags | None:
    """Flag the timestamps that a datetime can hold."""
    microseconds = column.cast(pa.int64())
    return as_flags(pc.and_(pc.greater_equal(microseconds, FIRST_MOMENT), pc.less_equal(microseconds, LAST_MOMENT)))


def free_of_nul(column: pa.StringArray) -> bool:
    """Return whether no text of the column has a NUL, which Postgres cannot hold."""
    return bool(content(column).all())


def content(column: pa.StringArray) -> npt.NDArray[np.uint8]:
    """Return the bytes of all texts of a column, one after the other."""
    _, offsets, data = column.buffers()
    if not len(column) or data is None:
        return np.zeros(0, np.uint8)
    bounds = np.frombuffer(offsets, np.int32)
    return np.frombuffer(data, np.uint8)[bounds[column.offset] : bounds[column.offset + len(column)]]


def valid_flags(column: pa.Array) -> Flags:
    """Flag the values that are not null."""
    flags: Flags = column.is_valid().to_numpy(zero_copy_only=False)
    return flags


def as_flags(flags: pa.Array) -> Flags | None:
    """Return the flags as numpy's, null counting as True; None where all are True."""
    if pc.all(flags, skip_nulls=True, min_count=0).as_py():
        return None
    result: Flags = pc.fill_null(flags, True).to_numpy(zero_copy_only=False)
    return result


def kept(column: pa.Array, fits: pa.Array) -> Built:
    """Return the column with null for values that do not fit, and the flags."""
    flags = as_flags(fits)
    return (column if flags is None else pc.if_else(pa.array(flags), column, None)), flags
