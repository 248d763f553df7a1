"""The decoder of a pipeline is that of its source.format, and of the schema that the file or the record names."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from offset_ledger.base import extras
from offset_ledger.decoding import formats
from offset_ledger.decoding.by_schema import FramedDecoder
from offset_ledger.decoding.formats import compile_decoder
from offset_ledger.decoding.json.decoder import JsonDecoder
from offset_ledger.decoding.outcome import SchemaProblem
from offset_ledger.decoding.subjects import LANGUAGES
from offset_ledger.errors import ConfigurationError
from offset_ledger.model.writer_schema import WriterSchema
from offset_ledger.pipeline_file.pipeline import Column, ColumnType, Limits, RecordShape
from offset_ledger.pipeline_file.source import Format, KeyFormat, SchemaFile, Source

SHAPE = RecordShape(("id",), None, (Column("state", ColumnType("text"), ("state",)),))


def test_every_format_of_the_pipeline_file_has_a_decoder() -> None:
    assert {Format.JSON, *LANGUAGES} == set(Format)
    for form in set(Format) - {Format.JSON}:
        with pytest.raises(SchemaProblem):  # of the format's own decoder
            formats._decoder(
                replace(Source("k", "t"), format=form), WriterSchema(1, LANGUAGES[form], "}"), SHAPE, Limits()
            )
    for key_form in set(KeyFormat) - {KeyFormat.TEXT, KeyFormat.JSON}:
        with pytest.raises(SchemaProblem):
            formats._key_reader(
                replace(Source("k", "t"), key_format=key_form), WriterSchema(1, LANGUAGES[key_form], "}")
            )


def test_the_format_chooses_the_decoder() -> None:
    decoder = compile_decoder(Source("k", "t"), SHAPE, Limits())
    assert type(decoder) is JsonDecoder
    assert decoder.record is SHAPE


@pytest.mark.parametrize("format_", [each for each in Format if each is not Format.JSON])
def test_records_that_name_their_schema_go_to_the_decoder_of_each(format_: Format) -> None:
    assert type(compile_decoder(Source("k", "t", format=format_, registry="r"), SHAPE, Limits())) is FramedDecoder


@pytest.mark.parametrize("format_", [each for each in Format if each is not Format.JSON])
def test_a_schema_file_that_is_none_is_named_at_once(format_: Format) -> None:
    with pytest.raises(ConfigurationError, match=r"source\.schema: "):
        compile_decoder(Source("k", "t", format=format_, schema=SchemaFile("s", "{"), message="m"), SHAPE, Limits())


def test_what_a_spark_task_carries_makes_the_same_decoder_elsewhere() -> None:
    source, record, limits = pickle.loads(pickle.dumps((Source("k", "t"), SHAPE, Limits())))
    assert compile_decoder(source, record, limits).record == SHAPE


@pytest.mark.parametrize("format_", [Format.PROTOBUF, Format.JSON_SCHEMA])
def test_a_library_that_is_not_installed_is_named(format_: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match=r"not installed; run pip install 'offset-ledger\["):
        compile_decoder(Source("k", "t", format=format_, registry="r"), SHAPE, Limits())
