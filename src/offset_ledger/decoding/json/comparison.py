"""Whether the value at a path of a record is the one that the pipeline file names."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from offset_ledger.config.json_path import format_path
from offset_ledger.config.model import Condition
from offset_ledger.decoding.json import numbers, texts
from offset_ledger.decoding.json.readers import boolean
from offset_ledger.decoding.outcome import Code, Mismatch, Reason

_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_string = msgspec.json.Decoder(str).decode


class Comparison:
    """Says of the records of one pipeline which delete their event, or which are its records at all."""

    def __init__(self, when: Condition) -> None:
        self._path = when.path
        self._equals = when.equals
        self._read = _reader(when.equals)

    def check(self, value: bytes) -> bool | Reason:
        """Whether the value is there and equal, or why that cannot be told; the record is a valid JSON object."""
        raw = value.strip()
        for depth, name in enumerate(self._path):
            if raw[:1] != b"{":
                path = format_path(self._path[:depth])
                return Reason(path, Code.TYPE, f"expected object, got {texts.json_kind(raw)}")
            raw = bytes(_object(raw).get(name, b"null"))
            if raw == b"null":
                return False
        try:
            return self._read(raw) == self._equals
        except Mismatch as mismatch:
            return Reason(format_path(self._path), mismatch.code, mismatch.detail)


def _reader(equals: str | bool | int) -> Callable[[bytes], object]:
    """How a value of the same JSON type is read, exactly."""
    if isinstance(equals, str):
        return lambda raw: _string(texts.expect(raw, "text", "text"))
    return boolean if isinstance(equals, bool) else numbers.numeric
