"""Refused records as the page shows them, as much of each as fits, or masked. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

SHOWN_BYTES = 64 * 1024  # of a key or a value that is text
_HEX_BYTES = 4 * 1024
_HEADERS = 50
_HEADER_BYTES = 1024
_LINE = 16
_TEXT_CONTROLS = frozenset("\t\n\r")


@dataclass(frozen=True, slots=True)
class ShownBytes:
    """The first ``shown`` of ``size`` bytes, as ``text`` or as lines of ``hex``; no text where it is masked."""

    size: int
    shown: int = 0
    form: str = "masked"
    text: str | None = None


def show_bytes(first: bytes | memoryview | None, size: int | None, readable: bool) -> ShownBytes | None:
    """What is shown of bytes that begin with ``first``; None for Kafka's null."""
    if size is None or first is None:
        return None
    if not readable:
        return ShownBytes(size)
    content = bytes(first)
    text = _text(content, cut_off=len(content) < size)
    if text is not None:
        return ShownBytes(size, len(text.encode()), "text", text)
    return ShownBytes(size, min(len(content), _HEX_BYTES), "hex", _hex(content[:_HEX_BYTES]))


def _text(content: bytes, cut_off: bool) -> str | None:
    """As UTF-8 without control characters; a character that was cut in two at the end is left out."""
    for dropped in range(4 if cut_off else 1):
        try:
            text = content[: len(content) - dropped].decode()
        except UnicodeDecodeError:
            continue
        return text if all(each.isprintable() or each in _TEXT_CONTROLS for each in text) else None
    return None


def _hex(content: bytes) -> str:
    lines = (content[at : at + _LINE] for at in range(0, len(content), _LINE))
    return "\n".join(f"{n * _LINE:06x}  {line.hex(' '):<47}  {_ascii(line)}" for n, line in enumerate(lines))


def _ascii(line: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 else "." for byte in line)


def reasons(record_reasons: Sequence[Mapping[str, Any]] | None, readable: bool) -> list[dict[str, Any]]:
    """Code and path of each reason, and the detail, which may quote the value, for who may read it."""
    names = ("code", "path", "detail") if readable else ("code", "path")
    return [{name: reason.get(name) for name in names} for reason in record_reasons or ()]


def headers(record_headers: Sequence[tuple[str, bytes | None]], readable: bool) -> list[dict[str, Any]]:
    """Names and values of the first headers."""
    return [{"name": _name(name), "value": _header(value, readable)} for name, value in record_headers[:_HEADERS]]


def _name(name: str) -> str:
    """With ``\\xe9`` for a byte that is not UTF-8."""
    return name.encode().decode(errors="backslashreplace")


def _header(value: bytes | None, readable: bool) -> dict[str, Any] | None:
    shown = show_bytes(value and value[:_HEADER_BYTES], None if value is None else len(value), readable)
    return asdict(shown) if shown else None
