"""The tree of paths that a document is read by, where values can be at several places."""

from __future__ import annotations

from functools import partial

import msgspec

from offset_ledger.config.model import JsonPath, RecordShape
from offset_ledger.decoding.shape import Node, places, tree_at

_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


Choice = tuple[JsonPath, ...]
MAX_KNOWN = 1000


class Trees:
    """The trees of one record shape, one for each choice of aliases."""

    def __init__(self, record: RecordShape) -> None:
        self._places = places(record)
        self._aliased = [place for place in self._places if place.leaf.aliased]
        self._known: dict[Choice, Node] = {}

    def __bool__(self) -> bool:
        """Whether there are several."""
        return bool(self._aliased)

    def choice(self, document: bytes) -> Choice:
        """Where the document, a valid JSON object without blanks around it, has the values that can be elsewhere."""
        has = partial(_has, document)
        return tuple(place.path(has) for place in self._aliased)

    def of(self, choice: Choice) -> Node:
        """The tree of documents with these."""
        if choice not in self._known:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            chosen = iter(choice)
            paths = [next(chosen) if place.leaf.aliased else place.paths[0] for place in self._places]
            self._known[choice] = tree_at(self._places, paths)
        return self._known[choice]


def _has(raw: bytes, path: JsonPath) -> bool:
    """Whether the document has a member at the path, null or not."""
    for name in path:
        if raw[:1] != b"{" or (member := _object(raw).get(name)) is None:
            return False
        raw = bytes(member)
    return True
