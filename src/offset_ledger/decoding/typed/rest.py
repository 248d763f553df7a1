"""What is left of a typed record, as the text of a jsonb."""

from __future__ import annotations

from typing import Any

from offset_ledger.config.json_path import format_path
from offset_ledger.decoding.outcome import WHOLE, Mismatch, printable
from offset_ledger.decoding.rest import RestRefused
from offset_ledger.decoding.typed.convert import json_text


def text_of(left: dict[str, Any]) -> str | None:
    """The JSON of the members that are left, None where none is.

    Raises:
        RestRefused: no jsonb can hold one of them.
    """
    if not left:
        return None
    try:
        return json_text(left)
    except Mismatch as mismatch:
        raise RestRefused.by(_culprit(left), mismatch) from None


def _culprit(left: dict[str, Any]) -> str:
    """The path of the first member that does not become JSON."""
    for name, value in left.items():
        try:
            json_text({name: value})
        except Mismatch:
            return printable(format_path((name,)))
    return WHOLE
