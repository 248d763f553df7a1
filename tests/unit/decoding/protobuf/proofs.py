"""Whether what a decoder proves is what it decodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from offset_ledger.decoding.decoder import Decoder
from offset_ledger.decoding.kinds import ColumnKind, kinds, staged
from offset_ledger.decoding.outcome import DecodedRow, Skip
from offset_ledger.pipeline_file.pipeline import RecordShape
from tests.unit.decoding.protobuf.random_schemas import AT


def check_proofs(decoder: Decoder, shape: RecordShape, values: list[bytes]) -> set[int]:
    """Each proven record is decoded to the same, or skipped; gives the proven rows."""
    proven = decoder.prove(pa.array(values, pa.binary()))
    if proven is None:
        return set()
    places = proven.places.tolist()
    assert places == sorted(set(places))
    assert all(decoder.decode(values[place], b"k", AT) == Skip() for place in proven.skipped)
    for row, place in enumerate(places):
        said = decoder.decode(values[place], b"k", AT)
        assert isinstance(said, DecodedRow), (values[place], said)
        row_of = (said.key[0], said.publish_at, *said.values)
        from_kafka = (shape.event_id is None, shape.publish_at is None, *[False] * len(said.values))
        for kind, column, value, absent in zip(kinds(shape), proven.columns, row_of, from_kafka, strict=True):
            assert (column is None) == absent
            if column is not None:
                alone = staged(kind, [value])
                assert column.type == alone.type
                assert bits_of(kind, column[row].as_py()) == bits_of(kind, alone[0].as_py()), (kind, values[place])
    return set(places)


def bits_of(kind: ColumnKind, value: Any) -> Any:
    """The staged value; of a float its bytes."""
    forms = {"real": "<f4", "double precision": "<f8"}
    return np.array(value, forms[kind.name]).tobytes() if value is not None and kind.name in forms else value
