"""The decoder of a pipeline is that of its source.format."""

from __future__ import annotations

import pickle

from offset_ledger.config import model
from offset_ledger.config.model import Column, ColumnType, Limits, RecordShape
from offset_ledger.decoding.formats import DECODERS, compile_decoder
from offset_ledger.decoding.json.decoder import JsonDecoder

SHAPE = RecordShape(("id",), None, (Column("state", ColumnType("text"), ("state",)),))


def test_every_format_of_the_pipeline_file_has_a_decoder() -> None:
    assert set(DECODERS) == set(model.FORMATS)


def test_the_format_chooses_the_decoder() -> None:
    decoder = compile_decoder("json", SHAPE, Limits())
    assert type(decoder) is JsonDecoder
    assert decoder.record is SHAPE


def test_what_a_spark_task_carries_makes_the_same_decoder_elsewhere() -> None:
    source_format, record, limits = pickle.loads(pickle.dumps(("json", SHAPE, Limits())))
    assert compile_decoder(source_format, record, limits).record == SHAPE
