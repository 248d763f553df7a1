"""JSON texts that Postgres takes as jsonb."""

import re
from decimal import Decimal
from functools import partial

from offset_ledger.decoding.decimals import check_written
from offset_ledger.decoding.outcome import Code, Mismatch, printable

MAX_DEPTH = 500  # far from Python's own limit, so that the same record is refused wherever it is decoded
TOO_DEEP = f"expected at most {MAX_DEPTH} nested arrays and objects, got more"
MAX_BYTES = 1 << 25
"""The longest text that surely fits: Postgres takes at most 2**24 items and 2**28 bytes of them."""
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"')
_BRACKET = re.compile(rb"[][{}]")
_ESCAPED_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_NUMBER = re.compile(rb"[-0-9][-+.0-9eE]*")
_LONG_NUMBER = re.compile(rb"[0-9][eE][-+]?[0-9]{4}|[0-9]{5000}")
_EXPONENT = re.compile(rb"[eE][+-]?0*([0-9]*)\Z")
_EXPONENT_DIGITS = 6


def document(raw: bytes) -> str:
    """Return a JSON text that Postgres can hold as jsonb."""
    check_size(raw)
    if b"\\u0000" in raw and _ESCAPED_NUL.search(raw):
        raise Mismatch(Code.NUL, "expected jsonb without NUL, which Postgres cannot hold")
    if _LONG_NUMBER.search(raw):
        for literal in _NUMBER.findall(_STRING.sub(b'""', raw)):
            check_written(number(literal), partial(shown, literal))
    return raw.decode()


def check_size(text: bytes | str) -> None:
    """Check that a jsonb is sure to hold the text."""
    if len(text) > MAX_BYTES:
        raise Mismatch(Code.TOO_LARGE, f"expected at most {MAX_BYTES} bytes of JSON, got {len(text)}")


def check_depth(value: bytes) -> None:
    """Check that arrays and objects are nested no deeper than the limit; the text is valid JSON."""
    if value.count(b"{") + value.count(b"[") <= MAX_DEPTH:
        return
    depth = 0
    for bracket in _BRACKET.findall(_STRING.sub(b'""', value)):
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_DEPTH:
            raise Mismatch(Code.DEPTH, TOO_DEEP)


def number(raw: bytes) -> Decimal:
    """The number that a literal of JSON names."""
    exponent = _EXPONENT.search(raw)
    if exponent and len(exponent[1]) > _EXPONENT_DIGITS:
        raise Mismatch(Code.RANGE, f"expected a number with an exponent of six digits, got {shown(raw)}")
    return Decimal(raw.decode())


def shown(raw: bytes) -> str:
    """The JSON of a value as it can stand in a reason."""
    return printable(raw[:400].decode(errors="replace"))
