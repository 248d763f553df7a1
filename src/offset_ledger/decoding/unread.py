"""What a record has that the pipeline file does not read."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from offset_ledger.config.json_path import touch
from offset_ledger.config.model import JsonPath, RecordShape
from offset_ledger.decoding.shape import places

_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
Read = dict[str, "Read"]
"""The members that paths lead to or through, with those inside; none where a path ends."""


def read_paths(record: RecordShape) -> tuple[JsonPath, ...]:
    """Every path that the file reads: those of columns with their aliases, of event_id, publish_at and conditions."""
    conditions = [each.path for each in (record.where, record.delete_when) if each]
    return (*(path for place in places(record) for path in place.paths), *conditions)


def unread(paths: Iterable[JsonPath], record: RecordShape) -> tuple[JsonPath, ...]:
    """The outermost places on these paths that no path of the file leads to, through or into."""
    read = read_paths(record)
    steps = ((path[:depth] for depth in range(1, len(path) + 1)) for path in paths)
    outermost = (next((at for at in each if not any(touch(other, at) for other in read)), None) for each in steps)
    return tuple(dict.fromkeys(at for at in outermost if at is not None))


class UnreadMembers:
    """Finds the members of JSON documents that nothing reads: at the top, and in objects that a path leads into."""

    def __init__(self, record: RecordShape) -> None:
        self._read: Read = {}
        for path in sorted(read_paths(record), key=len, reverse=True):
            node = self._read
            for name in path[:-1]:
                node = node.setdefault(name, {})
            node[path[-1]] = {}  # a shorter path reads all that longer ones lead into

    def of(self, document: bytes) -> list[JsonPath]:
        """Their paths; the document is a valid JSON object."""
        unread_paths: list[JsonPath] = []
        _find(self._read, document, (), unread_paths)
        return unread_paths


def _find(read: Read, raw: bytes | msgspec.Raw, path: JsonPath, unread_paths: list[JsonPath]) -> None:
    for name, value in _object(raw).items():
        inner = read.get(name)
        if inner is None:
            unread_paths.append((*path, name))
        elif inner and bytes(value)[:1] == b"{":
            _find(inner, value, (*path, name), unread_paths)
