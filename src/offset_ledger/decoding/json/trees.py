"""The tree of paths that a document is read by, where values can be at several places."""

from __future__ import annotations

from functools import partial

import msgspec

from offset_ledger.config.model import JsonPath, RecordShape
from offset_ledger.decoding.shape import Node, places, tree

_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Trees:
    """The trees of one record shape, one for each choice of aliases."""

    def __init__(self, record: RecordShape) -> None:
        self._record = record
        self._aliased = [place for place in places(record) if place.leaf.aliased]
        self._known = {tuple(place.paths[0] for place in self._aliased): tree(record)}

    def of(self, document: bytes) -> Node:
        """The tree of a document, which is a valid JSON object."""
        has = partial(_has, document)
        chosen = tuple(place.path(has) for place in self._aliased)
        if chosen not in self._known:
            self._known[chosen] = tree(self._record, has)
        return self._known[chosen]


def _has(raw: bytes, path: JsonPath) -> bool:
    """Whether the document has a member at the path, null or not."""
    for name in path:
        if raw[:1] != b"{" or (member := _object(raw).get(name)) is None:
            return False
        raw = bytes(member)
    return True
