"""A record of very many names costs the proof of a column no more than reading it."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pytest

from offset_ledger.decoding.json.decoder import JsonDecoder
from offset_ledger.pipeline_file.pipeline import Column, ColumnType, Limits, RecordShape
from tests.unit.decoding.protobuf.random_schemas import AT

SHAPE = RecordShape(None, None, (Column("x", ColumnType("jsonb"), ("x",)),))
NAMES = {"short": b'"%x":1', "long": b'"a_rather_long_name_%x":1', "blanks": b'"%x":1     ', "colons": b'"%x":":\\":"'}


@pytest.mark.parametrize("member", NAMES.values(), ids=NAMES)
def test_a_record_of_very_many_names(member: bytes) -> None:
    values = []
    for more in range(8):  # each with another number of names, which two of its objects have
        members = b",".join(member % n for n in range(480_000 // (len(member) + 3) + more))
        values.append(b'{"x":{%s},"y":{%s}}' % (members, members))
    decoder = JsonDecoder(SHAPE, Limits())
    begun = time.process_time()
    for value in values:
        decoder.decode(value, b"k", AT)
    alone, begun = time.process_time() - begun, time.process_time()
    proven = decoder.prove(pa.array(values, pa.binary()))
    assert proven is None or not np.isin(proven.skipped, range(8)).any()
    assert time.process_time() - begun < 2 * alone + 0.2
