"""What is left of a JSON document where its columns have taken theirs."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from offset_ledger.config.json_path import format_path
from offset_ledger.decoding import jsonb
from offset_ledger.decoding.outcome import Mismatch, printable
from offset_ledger.decoding.rest import RestRefused
from offset_ledger.decoding.shape import Node

_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


def rest_text(root: Node, document: bytes) -> str | None:
    """The members that no path of the tree leads to or through, as they are written; None where there are none.

    The document is a valid JSON object that the tree reads.

    Raises:
        RestRefused: no jsonb can hold one of them.
    """
    text = _left(root, document)
    try:
        jsonb.check_size(text)
    except Mismatch as mismatch:
        raise RestRefused.by(root.path, mismatch) from None
    return text or None


def _left(node: Node, raw: bytes) -> str:
    members = ",".join(_members(node, raw))
    return f"{{{members}}}" if members else ""


def _members(node: Node, raw: bytes) -> Iterator[str]:
    for name, value in _object(raw).items():
        member = node.members.get(name)
        if member is None:
            yield _written(node, name, bytes(value))
        elif not member.leaves and bytes(value)[:1] == b"{" and (inner := _left(member, bytes(value))):
            yield _written(node, name, inner.encode())


def _written(node: Node, name: str, value: bytes) -> str:
    try:
        return jsonb.document(_encode(name) + b":" + value)
    except Mismatch as mismatch:
        raise RestRefused.by(node.path + printable(format_path((name,))[1:]), mismatch) from None
