"""Google's own runtime makes the messages, and says what is in them."""

from __future__ import annotations

from random import Random
from typing import Any

from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from offset_ledger.decoding.outcome import Code, DecodedRow, Refusal
from offset_ledger.decoding.protobuf.decoder import protobuf_decoder
from offset_ledger.pipeline_file.json_path import format_path
from offset_ledger.pipeline_file.pipeline import Limits, RecordShape
from tests.examples import examples
from tests.unit.decoding.protobuf.oracle import expected_row, row_values, same, shape_of
from tests.unit.decoding.protobuf.random_messages import damaged, fill
from tests.unit.decoding.protobuf.random_schemas import AT, EXAMPLES, Case, case, randoms, seeds


def outcome(found: Case, shape: RecordShape, value: bytes) -> DecodedRow | Refusal:
    """What the decoder says of a message that the key and the timestamp complete."""
    said = protobuf_decoder(found.writer, shape, Limits(), found.name).decode(value, b"k", AT)
    assert isinstance(said, DecodedRow | Refusal)
    return said


def check(said: DecodedRow | Refusal, message: Any, shape: RecordShape, fields: tuple[Any, ...]) -> None:
    """The row is exactly that of the message, or the refusal names exactly the columns that no row can have."""
    expected = expected_row(message, shape, fields)
    if isinstance(expected, set):
        assert isinstance(said, Refusal), expected
        assert {reason.path for reason in said.reasons} == expected
    else:
        assert isinstance(said, DecodedRow), said
        assert (said.key[0], said.publish_at) == ("k", AT)
        assert same(expected, row_values(said, shape)), (expected, said)


@examples(EXAMPLES)
@given(seeds, st.integers(0, 3), randoms)
def test_a_message_becomes_the_row_that_the_runtime_reads(seed: int, columns: int, random: Random) -> None:
    found = case(seed)
    shape, fields = shape_of(found.make.DESCRIPTOR, columns)
    message = fill(random, found.make())
    check(outcome(found, shape, message.SerializePartialToString()), message, shape, fields)


@examples(EXAMPLES)
@given(seeds, st.integers(0, 3), randoms)
def test_messages_one_after_the_other_are_merged(seed: int, columns: int, random: Random) -> None:
    found = case(seed)
    shape, fields = shape_of(found.make.DESCRIPTOR, columns)
    parts = [fill(random, found.make()).SerializePartialToString() for _ in range(random.choice((2, 2, 3)))]
    message, said = found.make.FromString(b"".join(parts)), outcome(found, shape, b"".join(parts))
    expected = expected_row(message, shape, fields)
    if isinstance(said, Refusal) and (documents := jsonb_paths(shape)):
        # Of two entries of one key Google's maps keep the last, which would change the data: such a map is refused.
        wanted = expected if isinstance(expected, set) else set()
        assert wanted - documents == {reason.path for reason in said.reasons} - documents
    else:
        check(said, message, shape, fields)


def jsonb_paths(shape: RecordShape) -> set[str]:
    """The paths of the columns that can hold maps."""
    return {format_path(column.path) for column in shape.columns if column.type.name == "jsonb"}


@examples(EXAMPLES)
@given(seeds, st.integers(0, 3), randoms)
def test_what_is_read_of_damaged_bytes_is_what_the_runtime_reads(seed: int, columns: int, random: Random) -> None:
    found = case(seed)
    shape, fields = shape_of(found.make.DESCRIPTOR, columns)
    value = damaged(random, fill(random, found.make()).SerializePartialToString())
    said = outcome(found, shape, value)
    if isinstance(said, DecodedRow):
        check(said, found.make.FromString(value), shape, fields)
    else:
        for reason in said.reasons:
            assert reason.path.startswith("$")
            assert (reason.path + reason.detail).isprintable()
            assert reason.code in Code


@examples(max(20, EXAMPLES // 20))
@given(seeds, randoms)
def test_what_the_runtime_refuses_is_refused(seed: int, random: Random) -> None:
    found = case(seed)
    shape, _ = shape_of(found.make.DESCRIPTOR, 0)
    whole = fill(random, found.make()).SerializePartialToString()[:300]
    for value in [whole[:end] for end in range(len(whole))] + [damaged(random, whole) for _ in range(20)]:
        try:
            found.make.FromString(value)
        except DecodeError:
            assert isinstance(outcome(found, shape, value), Refusal), value
