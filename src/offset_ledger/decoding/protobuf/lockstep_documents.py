"""Fields of many messages that become JSON: all are passed over together, and what was passed is read one by one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from offset_ledger.decoding.kinds import ColumnKind
from offset_ledger.decoding.outcome import Mismatch
from offset_ledger.decoding.protobuf.lockstep_leaves import Unprovable
from offset_ledger.decoding.protobuf.lockstep_walk import Step, Walk
from offset_ledger.decoding.protobuf.parse import Parser
from offset_ledger.decoding.protobuf.schema import Field, Message, ProtobufSchema
from offset_ledger.decoding.protobuf.values import SPARE_FILLED, Values
from offset_ledger.decoding.protobuf.wire import Malformed
from offset_ledger.decoding.shape import Leaf
from offset_ledger.decoding.typed.convert import converter

_JSONB = ColumnKind("jsonb", (), "")


class Documents:
    """Reads fields of one schema as the exact reader does, which has no less room for those of a message together."""

    def __init__(self, schema: ProtobufSchema) -> None:
        self._parser, self._values, self._count = Parser(schema), Values(schema), 0

    def step(self, pass_over: Step, message: Message, field: Field, leaves: list[Leaf]) -> Step:
        """Takes a step over a field, and fills the leaves with the JSON of what it passed.

        Raises:
            Unprovable: a leaf is no jsonb.
        """
        if any(leaf.kind != _JSONB for leaf in leaves):
            raise Unprovable
        read, nullable = self._reader(message, field), all(leaf.nullable for leaf in leaves)

        def step(state: Walk) -> None:
            starts = state.tag_starts()
            pass_over(state)
            spans = state.cursors.between(starts, state.tag_starts(), state.exists)
            column, good = _column(read, spans, nullable)
            state.cursors.good &= np.array(good, np.bool_) | ~state.exists
            state.slots.update(dict.fromkeys((leaf.slot for leaf in leaves), column))

        return step

    def _reader(self, message: Message, field: Field) -> Callable[[bytes], str | None]:
        """What gives the JSON of a field that stands in some bytes, None where it is not set; raises Mismatch."""
        get, convert = self._values.getter(field), converter(self._values.type_of(field), _JSONB)
        self._count += 1

        def read(span: bytes) -> str | None:
            self._values.room = SPARE_FILLED // self._count
            value = get(self._parser.parse_some(span, message))
            return None if value is None else str(convert(value))

        return read


def _column(
    read: Callable[[bytes], str | None], spans: pa.BinaryArray, nullable: bool
) -> tuple[pa.StringArray, list[bool]]:
    """The JSON of each span, and which of them certainly have what they should; null where there is no message."""
    known = {None: (None, False), b"": _read(read, b"", nullable)}
    readings = [known.get(span) or _read(read, span, nullable) for span in spans.to_pylist()]
    return pa.array([text for text, _ in readings], pa.string()), [sure for _, sure in readings]


def _read(read: Callable[[bytes], str | None], span: bytes, nullable: bool) -> tuple[str | None, bool]:
    try:
        text = read(span)
    except (Malformed, Mismatch):
        return None, False
    return text, nullable or text is not None
