"""A reader of the bytes of one record, from the first to the last; whatever is not as Avro writes it is refused.

Integers are taken in the forms that Java's ``BinaryDecoder`` takes: at most 5 bytes for an int, 10 for a long, and a
form that is longer than it needs to be counts as its value. Unlike there, bits beyond the 32nd or the 64th are refused
instead of dropped, and so are booleans other than 0 and 1.
"""

from collections.abc import Iterator
from struct import Struct

from offset_ledger.decoding.outcome import Code, Mismatch, printable
from offset_ledger.decoding.typed.decoder import Found, Malformed

MAX_DEPTH = 500  # as for JSON; each level is one frame of Python's
TOO_DEEP = f"expected at most {MAX_DEPTH} nested records, arrays, maps and unions, got more"
VALUES_PER_BYTE, SPARE_VALUES = 16, 10_000
_FLOAT, _DOUBLE = Struct("<f"), Struct("<d")


class ByteReader:
    """A reader of one record, up to the byte ``at``; ``against`` is the first value that no jsonb can hold.

    Values that take no bytes could be without number: all records, their fields and the items of arrays and maps
    together are at most ``VALUES_PER_BYTE`` for each byte, and ``SPARE_VALUES`` more.
    """

    __slots__ = ("_depth", "_left", "_most", "against", "at", "data", "reading")

    def __init__(self, data: bytes, reading: Found | None = None) -> None:
        self.data, self.at, self.reading = data, 0, reading or Found([])
        self.against: Mismatch | None = None
        self._depth = 0
        self._left = self._most = SPARE_VALUES + VALUES_PER_BYTE * len(data)

    def enter(self, values: int) -> None:
        """Step into a record, an array, a map or a union with this many values."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise Malformed(TOO_DEEP, Code.DEPTH)
        self._spend(values)

    def leave(self) -> None:
        """Step out again."""
        self._depth -= 1

    def mark(self) -> tuple[int, int]:
        """The place, to come back to."""
        return self.at, self._left

    def back(self, mark: tuple[int, int]) -> None:
        """Go back to a place, as if nothing behind it had been read."""
        self.at, self._left = mark

    def finish(self) -> None:
        """Check that nothing is left."""
        if rest := len(self.data) - self.at:
            raise Malformed(f"expected the end of the record at byte {self.at}, got {_bytes(rest)} more")

    def read_null(self) -> None:
        """Read a null, which has no bytes."""

    def read_boolean(self) -> bool:
        """Read one byte, 0 or 1."""
        byte = self.span(1)[0]
        if byte > 1:
            raise Malformed(f"expected boolean as 0 or 1, got byte {byte:#04x}")
        return byte == 1

    def read_int(self) -> int:
        """An integer of 32 bits."""
        return self._zigzag(5, 32)

    def read_long(self) -> int:
        """An integer of 64 bits."""
        return self._zigzag(10, 64)

    def read_float(self) -> float:
        """A float of 32 bits."""
        value: float = _FLOAT.unpack(self.span(4))[0]
        return value

    def read_double(self) -> float:
        """A float of 64 bits."""
        value: float = _DOUBLE.unpack(self.span(8))[0]
        return value

    def read_bytes(self) -> bytes:
        """Read a length and that many bytes."""
        return self.span(self.read_long())

    def read_string(self) -> str:
        """Read a length and that many bytes of UTF-8."""
        data = self.read_bytes()
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            detail = f"expected UTF-8, got byte {data[error.start]:#04x} at {error.start}"
            raise Malformed(detail, Code.ENCODING) from None

    def read_index(self, count: int, of: str) -> int:
        """Read the index of one of ``count`` symbols or branches."""
        index = self.read_int()
        if not 0 <= index < count:
            raise Malformed(f"expected an index below {count} in {of}, got {index}")
        return index

    def read_key(self, seen: set[str]) -> str:
        """Read the key of a map, which must not be among those seen."""
        key = self.read_string()
        if key in seen:
            raise Malformed(f"expected each key once, got {printable(key)} again", Code.DUPLICATE_KEY)
        seen.add(key)
        return key

    def items(self) -> Iterator[None]:
        """Yield once for each item of an array or a map; the caller reads the item."""
        while count := self.read_long():
            start, size = self.at, None
            if count < 0:
                count, size = -count, self._length(self.read_long())
                start = self.at
            self._spend(count)
            for _ in range(count):
                yield None
            if size is not None and self.at - start != size:
                raise Malformed(f"expected a block of {_bytes(size)}, got {self.at - start}")

    def span(self, size: int) -> bytes:
        """Read the next ``size`` bytes."""
        start = self.at
        self.at = start + self._length(size)
        return self.data[start : self.at]

    def skip(self, size: int) -> None:
        """Skip the next ``size`` bytes."""
        self.at += self._length(size)

    def _length(self, size: int) -> int:
        if size < 0:
            raise Malformed(f"expected a length before byte {self.at}, got {size}")
        if size > (rest := len(self.data) - self.at):
            raise Malformed(f"expected {_bytes(size)} at byte {self.at}, got {rest}")
        return size

    def _zigzag(self, most: int, bits: int) -> int:
        start = self.at
        if start < len(self.data) and (byte := self.data[start]) < 0x80:
            self.at = start + 1
            return (byte >> 1) ^ -(byte & 1)
        shift = value = 0
        for byte in self.data[start : start + most]:
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                if value >> bits:
                    break
                self.at = start + shift // 7
                return (value >> 1) ^ -(value & 1)
        if shift < 7 * most and not value >> bits:
            raise Malformed(f"expected an integer at byte {start}, got the end of the record")
        raise Malformed(f"expected an integer of {bits} bits at byte {start}, got more")

    def _spend(self, values: int) -> None:
        self._left -= values
        if self._left < 0:
            detail = f"expected at most {self._most} values in {_bytes(len(self.data))}, got more"
            raise Malformed(detail, Code.TOO_LARGE)


def _bytes(count: int) -> str:
    return "1 byte" if count == 1 else f"{count} bytes"
