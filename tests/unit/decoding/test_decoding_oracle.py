"""Accepted rows are what the standard library reads, and what it can read exactly is accepted."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from offset_ledger.decoding.json.decoder import JsonDecoder
from offset_ledger.decoding.outcome import Code, DecodedRow, Refusal, Skip
from offset_ledger.pipeline_file.pipeline import FieldCondition
from tests.examples import examples
from tests.unit.decoding.decoding_documents import (
    _READER,
    COLUMNS,
    CONDITIONS,
    DELETES,
    KAFKA_TIME,
    LIMITS,
    SHAPE,
    documents,
    oracle,
)

decoder = JsonDecoder(SHAPE, LIMITS)
_DOCUMENTS = [place for place, column in enumerate(COLUMNS, start=2) if column.type.name == "jsonb"]


def slots(row: DecodedRow) -> tuple[Any, ...]:
    """All values of the row, and whether it is a delete; a jsonb as the oracle reads it."""
    found = [row.key[0], row.publish_at, *row.values, row.deleted]
    for place in _DOCUMENTS:
        if not row.deleted:
            assert isinstance(found[place], str)
            found[place] = _READER.decode(found[place])
    return tuple(found)


@examples(2000)
@given(documents(), st.sampled_from([None, None, None, *DELETES]), CONDITIONS)
def test_decodes_exactly_what_the_oracle_reads(
    value: bytes, delete_when: FieldCondition | None, where: tuple[FieldCondition, ...]
) -> None:
    shape = replace(SHAPE, delete_when=delete_when, where=where)
    outcome = JsonDecoder(shape, LIMITS).decode(value, None, KAFKA_TIME)
    expected = oracle(value, shape)
    if expected is None:
        assert isinstance(outcome, Refusal), value
    elif isinstance(expected, Skip):
        assert outcome == expected, value
    else:
        assert isinstance(outcome, DecodedRow), (value, outcome)
        assert slots(outcome) == expected
        assert list(map(type, slots(outcome))) == list(map(type, expected))


@examples(500)
@given(
    st.one_of(
        st.binary(), documents(most_bad=4), st.text(alphabet='{}[]",:\\u0019eE.-null tf\n', max_size=60).map(str.encode)
    )
)
@example(b"")
@example(b"[" * 10_000)
@example(b'{"z":' * 10_000)
@example(b'{"document":' + b"[" * 10_000 + b"]" * 10_000 + b"}")
@example(b'{"a":' * 900 + b"1" + b"}" * 900)
@example(b'"' + b'\\"' * 9_000 + b"[" * 600)
@example(b"\xff" * 100)
def test_never_raises_and_gives_printable_reasons(value: bytes) -> None:
    outcome = decoder.decode(value, value, KAFKA_TIME)
    if isinstance(outcome, Refusal):
        assert outcome.reasons
        for reason in outcome.reasons:
            assert (reason.path + reason.detail).isprintable()
            assert reason.code in Code
            assert json.dumps([reason.path, reason.detail])
