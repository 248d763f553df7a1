"""Records read in lockstep give what a plain reader reads, one record after the other, or are not good."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offset_ledger.decoding.lockstep import Cursors
from tests.examples import examples

U64 = 2**64 - 1


class Wrong(Exception):
    """The plain reader cannot go on."""


@dataclass
class Plain:
    """Reads one record, byte after byte."""

    record: bytes
    at: int = 0

    def fixed(self, size: int) -> bytes:
        if not 0 <= size <= len(self.record) - self.at:
            raise Wrong
        self.at += size
        return self.record[self.at - size : self.at]

    def varint(self) -> int:
        value = 0
        for place in range(10):
            byte = self.fixed(1)[0]
            value += (byte % 128) * 128**place
            if byte < 128:
                if value > U64 or (place and byte == 0):
                    raise Wrong
                return value
        raise Wrong

    def zigzag(self) -> int:
        half, odd = divmod(self.varint(), 2)
        return -half - 1 if odd else half

    def boolean(self) -> bool:
        byte = self.fixed(1)
        if byte not in (b"\0", b"\1"):
            raise Wrong
        return byte == b"\1"

    def span(self) -> bytes:
        return self.fixed(self.zigzag())

    def skipped(self) -> None:
        self.fixed(self.varint())


def varint(value: int) -> bytes:
    out = []
    while value > 127:
        out.append(value % 128 + 128)
        value //= 128
    return bytes([*out, value])


def zigzag(value: int) -> bytes:
    return varint(2 * value if value >= 0 else -2 * value - 1)


def sized(value: bytes) -> bytes:
    return zigzag(len(value)) + value


@dataclass(frozen=True)
class Step:
    """A step of a program: how a value is written, read by itself, and read by all."""

    values: st.SearchStrategy[Any]
    write: Callable[[Any], bytes]
    plain: Callable[[Plain], Any]
    lockstep: Callable[[Cursors, Any], Any]


def fixed(size: int) -> Step:
    return Step(
        st.binary(min_size=size, max_size=size),
        bytes,
        lambda plain: plain.fixed(size),
        lambda cursors, where: [row.tobytes() for row in cursors.fixed(size, where)],
    )


EDGES = sorted({min(max(2**bits + less, 0), U64) for bits in range(0, 65, 7) for less in (-1, 0, 1)})
SIGNED = sorted({sign * 2**bits + less for bits in (0, 6, 13, 27, 55, 62) for sign in (-1, 1) for less in (-1, 0)})
TEXTS = st.binary(max_size=20) | st.binary(min_size=60, max_size=200)
STEPS = [
    Step(st.integers(0, U64) | st.sampled_from(EDGES) | st.integers(0, 300), varint, Plain.varint, lambda cursors,
        where: cursors.varints(where).tolist()),
    Step(st.integers(-(2**63), 2**63 - 1) | st.sampled_from([*SIGNED, -(2**63), 2**63 - 1]), zigzag, Plain.zigzag,
        lambda cursors, where: cursors.zigzags(where).tolist()),
    Step(st.booleans(), lambda value: bytes([value]), Plain.boolean, lambda c, where: c.booleans(where).tolist()),
    Step(TEXTS, sized, Plain.span, lambda c, where: c.spans(c.zigzags(where), where).to_pylist()),
    Step(TEXTS, lambda value: varint(len(value)) + value, Plain.skipped, lambda c,
        where: [c.skip(c.varints(where), where)] * len(c.good)),
    *map(fixed, (0, 1, 4, 8, 12, 33)),
]  # fmt: skip


@dataclass(frozen=True)
class Taken:
    """A step with the records that take it; None where all do."""

    step: Step
    where: list[bool] | None

    def by(self, place: int) -> bool:
        return self.where is None or self.where[place]


def damaged(record: bytes, draw: st.DataObject) -> bytes:
    """The record with one thing that is wrong, or that could be."""
    at = draw.draw(st.integers(0, len(record)))
    match draw.draw(st.sampled_from(["cut", "garbage", "changed", "over-long", "more"])):
        case "cut":
            return record[:at]
        case "garbage":
            return draw.draw(st.binary(max_size=30))
        case "changed":
            return record[:at] + draw.draw(st.binary(min_size=1, max_size=10)) + record[at + 1 :]
        case "over-long":
            longer = draw.draw(st.sampled_from([b"\x80\0", b"\xff" * 9 + b"\x01", b"\xff" * 9 + b"\x02", b"\xff" * 11]))
            return record[:at] + longer + record[at:]
    return record + b"\0"


def read_alone(record: bytes, program: Sequence[Taken], place: int) -> list[Any] | None:
    """What is in the record, None where it is not what the program reads."""
    plain = Plain(record)
    try:
        values = [taken.step.plain(plain) for taken in program if taken.by(place)]
    except Wrong:
        return None
    return values if plain.at == len(record) else None


def read_together(values: pa.BinaryArray, candidates: list[bool], program: Sequence[Taken]) -> list[list[Any] | None]:
    """The same, all records at the same time."""
    cursors = Cursors(values, np.array(candidates, np.bool_))
    columns = [
        taken.step.lockstep(cursors, None if taken.where is None else np.array(taken.where, np.bool_))
        for taken in program
    ]
    read = cursors.at_end()
    return [
        [column[place] for taken, column in zip(program, columns, strict=True) if taken.by(place)] if good else None
        for place, good in enumerate(read.tolist())
    ]


@examples(200)
@given(st.data())
def test_lockstep_reads_what_a_plain_reader_reads(data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 6))
    flags = st.lists(st.booleans(), min_size=count, max_size=count)
    program = data.draw(st.lists(st.builds(Taken, st.sampled_from(STEPS), st.none() | flags), max_size=8))
    records = []
    for place in range(count):
        record = b"".join(t.step.write(data.draw(t.step.values)) for t in program if t.by(place))
        records.append(damaged(record, data) if data.draw(st.booleans()) else record)
    candidates = data.draw(flags)
    around = data.draw(st.lists(st.binary(max_size=9), min_size=2, max_size=2))
    values = pa.array([around[0], *records, around[1]], pa.binary()).slice(1, count)
    expected = [
        read_alone(record, program, place) if candidates[place] else None for place, record in enumerate(records)
    ]
    assert read_together(values, candidates, program) == expected


def bordering() -> list[bytes]:
    """Records at the border of what one number can be: each edge cut at each place, over-long, and with a byte more."""
    whole = [varint(edge) for edge in EDGES] + [bytes([first]) for first in range(256)]
    cut = [each[:place] for each in whole for place in range(len(each))]
    longer = [each[:-1] + bytes([each[-1] | 128, last]) for each in whole for last in (0, 1, 2, 127, 128)]
    tenth = [b"\xff" * 9 + bytes([last]) for last in range(256)]
    sized = [
        zigzag(length) + bytes(size) for length in (-(2**63), -2, -1, 0, 1, 2, 70) for size in (0, 1, 2, 69, 70, 71)
    ]
    return [*whole, *cut, *longer, *tenth, *sized]


@pytest.mark.parametrize("step", STEPS[:5])
def test_the_borders_of_numbers_are_where_the_plain_reader_has_them(step: Step) -> None:
    records, program = bordering(), [Taken(step, None)]
    for around in (records, records[::-1]):
        together = read_together(pa.array(around, pa.binary()), [True] * len(around), program)
        assert together == [read_alone(record, program, place) for place, record in enumerate(around)]


@pytest.mark.parametrize("step", STEPS[:3])
def test_a_well_formed_value_is_good_at_the_end_of_memory(step: Step) -> None:
    for value in (0, 1, True) if step is STEPS[2] else (0, 1, 127, 128, 2**62 - 1):
        assert read_together(pa.array([step.write(value)], pa.binary()), [True], [Taken(step, None)]) == [[value]]


def test_null_is_no_record() -> None:
    values = pa.array([b"\1", None, b"\1"], pa.binary())
    cursors = Cursors(values, np.ones(3, np.bool_))
    assert cursors.varints().tolist() == [1, 0, 1]
    assert cursors.at_end().tolist() == [True, False, True]


def test_whether_a_byte_is_left_is_known_before_it_is_read() -> None:
    cursors = Cursors(pa.array([b"\7\x08", b"", b"\x09"], pa.binary()), np.ones(3, np.bool_))
    assert cursors.has_more().tolist() == [True, False, True]
    cursors.skip(np.array([1, 0, 1]))
    assert cursors.has_more().tolist() == [True, False, False]
    assert cursors.at_end().tolist() == [False, True, True]


def test_a_length_that_only_64_bits_hold_is_not_good() -> None:
    cursors = Cursors(pa.array([b"abc"] * 4, pa.binary()), np.ones(4, np.bool_))
    spans = cursors.spans(np.array([2**64 - 1, 2**63, 2**32 + 1, 2], np.uint64))
    assert (spans.to_pylist(), cursors.good.tolist()) == ([None, None, None, b"ab"], [False, False, False, True])


def test_fixed_bytes_are_numbers_at_once() -> None:
    doubles = [0.1, -0.0, float("inf")]
    cursors = Cursors(pa.array([struct.pack("<d", each) for each in doubles], pa.binary()), np.ones(3, np.bool_))
    assert list(map(repr, cursors.fixed(8).view("<f8").ravel().tolist())) == list(map(repr, doubles))


@pytest.mark.parametrize("bad", [[0], [3], [0, 3], [0, 1, 2, 3]])
def test_places_of_records_that_are_not_good_may_lie_outside_of_all(bad: list[int]) -> None:
    """A damaged message can end where another begins, or before the first byte of all."""
    cursors = Cursors(pa.array([b"abc", b"def", b"ghi", b"jkl"], pa.binary()), np.ones(4, np.bool_))
    starts = cursors.places()
    cursors.skip(np.full(4, 2))
    ends = cursors.places()
    cursors.good[bad] = False
    starts[bad], ends[bad] = 400, -5
    spans = [b"ab", b"de", b"gh", b"jk"]
    wanted = [None if number in bad else span for number, span in enumerate(spans)]
    assert cursors.between(starts, ends).to_pylist() == wanted
