"""How ranges become slices and runs of them."""

from __future__ import annotations

from collections import deque
from itertools import chain, pairwise
from threading import Event

from hypothesis import given
from hypothesis import strategies as st

from offset_ledger.model.ranges import OffsetRange
from offset_ledger.steps.stage.runs import NumberedSlice, SharedSlices, runs_of, shares_of

ranges = st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 5_000)), min_size=1, max_size=8).map(
    lambda given: [OffsetRange(n, start, start + width) for n, (start, width) in enumerate(given)]
)


@given(ranges, st.integers(1, 5), st.integers(1, 2_000).filter(lambda n: n > 40))
def test_every_offset_is_in_one_slice_and_a_run_reads_on(
    wanted: list[OffsetRange], workers: int, per_slice: int
) -> None:
    runs = runs_of(wanted, workers, per_slice)
    slices = list(chain.from_iterable(runs))
    assert [number for number, _ in slices] == list(range(len(slices)))
    assert all(part.width <= per_slice for _, part in slices)
    for run in runs:
        assert all(a.until_offset == b.from_offset and a.partition == b.partition for (_, a), (_, b) in pairwise(run))
    for whole in wanted:
        parts = [part for _, part in slices if part.partition == whole.partition]
        assert parts[0].from_offset == whole.from_offset
        assert parts[-1].until_offset == whole.until_offset
        assert all(a.until_offset == b.from_offset for a, b in pairwise(parts))


def test_one_worker_reads_each_range_in_one_run() -> None:
    assert runs_of([OffsetRange(0, 0, 10), OffsetRange(4, 5, 6)], 1, 250_000) == [
        ((0, OffsetRange(0, 0, 10)),),
        ((1, OffsetRange(4, 5, 6)),),
    ]


def test_a_single_range_is_shared() -> None:
    runs = runs_of([OffsetRange(0, 0, 1_000_000)], 2, 250_000)
    assert runs == [((n, OffsetRange(0, n * 250_000, (n + 1) * 250_000)),) for n in range(4)]


@given(ranges, st.integers(1, 9))
def test_tasks_share_whole_runs_once_and_evenly(wanted: list[OffsetRange], slots: int) -> None:
    runs = runs_of(wanted, slots, 1_000)
    shares = shares_of(runs, slots)
    assert len(shares) == min(len(runs), slots)
    assert sorted(chain.from_iterable(shares)) == list(chain.from_iterable(runs))
    for run in runs:
        assert [set(run) <= set(share) for share in shares].count(True) == 1
    widths = sorted(sum(part.width for _, part in share) for share in shares)
    assert widths[-1] - widths[0] <= max(sum(part.width for _, part in run) for run in runs)


def test_a_large_batch_has_more_tasks_than_slots_but_no_more_than_are_worth_one() -> None:
    def tasks(offsets: int) -> int:
        return len(shares_of(runs_of([OffsetRange(n, 0, offsets // 64) for n in range(64)], 2, 1_000), 2))

    assert [tasks(n) for n in (20_032, 500_032, 1_000_000, 1_500_032, 4_000_000)] == [2, 3, 4, 7, 8]


def test_a_partition_of_twenty_times_the_others_is_shared() -> None:
    wanted = [OffsetRange(0, 0, 2_000_000), *(OffsetRange(n, 0, 100_000) for n in range(1, 8))]
    shares = shares_of(runs_of(wanted, 2, 250_000), 2)
    assert sum(any(part.partition == 0 for _, part in share) for share in shares) == 3
    assert max(sum(part.width for _, part in share) for share in shares) <= 700_000


@given(ranges, st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=60))
def test_workers_that_look_ahead_share_every_slice_once(
    wanted: list[OffsetRange], turns: list[tuple[int, bool]]
) -> None:
    runs = runs_of(wanted, 3, 1_000)
    shared, over = deque(runs), Event()
    workers = [SharedSlices(shared, over) for _ in range(3)]
    iterators = [iter(worker) for worker in workers]
    taken: list[list[NumberedSlice]] = [[], [], []]
    for place, looks in turns:
        following = workers[place].following() if looks else None
        if each := next(iterators[place], None):
            taken[place].append(each)
            assert following in (None, each[1])
    for place, iterator in enumerate(iterators):
        taken[place] += iterator
    assert sorted(chain.from_iterable(taken)) == list(chain.from_iterable(runs))


def test_no_worker_begins_another_slice_when_it_is_over() -> None:
    over = Event()
    slices = iter(SharedSlices(deque(runs_of([OffsetRange(0, 0, 4)], 1, 1)), over))
    assert next(slices) == (0, OffsetRange(0, 0, 1))
    over.set()
    assert list(slices) == []
