"""Each kind of forbidden history is refused with its story, and an honest one is not. Rows are values: no server."""

from __future__ import annotations

import ast
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.model.state import Sheet
from tests.witness import ledger, replay
from tests.witness.ledger import Line, Tables
from tests.witness.replay import Counts, NotAllowedError

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
LOG = "topic-1"
COMMITTED = ("planned", "staging", "staged", "validated", "committed")


def a_batch(number: int, kind: str, state: str, epoch: int) -> Line:
    return {"batch_id": number, "pipeline": "orders", "kind": kind, "state": state, "epoch": epoch, "topic_id": LOG,
            "slices_expected": 1, "gap_reason": None, "after": None}  # fmt: skip


def a_range(number: int, start: int, end: int, **sheet: int) -> Line:
    counts = dict.fromkeys(Sheet._fields, 0) | sheet if sheet else dict.fromkeys(Sheet._fields)
    added = sheet.get("inserted", 0) if sheet else None
    return {"batch_id": number, "partition": 0, "from_offset": start, "until_offset": end, "added": added, **counts}


def a_slice(number: int, epoch: int, start: int, end: int) -> Line:
    return {"batch_id": number, "epoch": epoch, "slice_no": 0, "partition": 0, "rows": end - start, "refused": 0,
            "skipped": 0, "min_offset": start, "max_offset": end - 1}  # fmt: skip


def events_of(number: int, *states: str) -> list[dict[str, Any]]:
    """Events of a batch through these states: each claim is a new epoch."""
    return [
        {"batch_id": number, "at": AT, "from_state": before, "to_state": after, "who": "test",
         "why": "because" if after == "abandoned" else None, "epoch": states[: place + 1].count("staging")}
        for place, (before, after) in enumerate(zip((None, *states), states, strict=False))
    ]  # fmt: skip


def numbered(*events: Line) -> list[Line]:
    return [{**event, "event_id": number} for number, event in enumerate(events, 1)]


CLAIMED_TWICE = ("planned", "staging", "staging", "staged", "validated", "committed")
WRITTEN = {1: range(9), 2: range(10, 20), 3: range(9, 10)}
HONEST = Tables(
    pipelines=[{"pipeline": "orders", "topic": "orders", "topic_id": LOG, "ordered_by": "$.at"}],
    starts=[{"pipeline": "orders", "topic_id": LOG, "partition": 0, "start_offset": 0}],
    cursors=[{"pipeline": "orders", "topic_id": LOG, "partition": 0, "next_offset": 20}],
    batches=[
        a_batch(1, "head", "committed", 1),
        a_batch(2, "head", "committed", 2),
        a_batch(3, "redrive", "committed", 1),
        a_batch(4, "redrive", "abandoned", 0),
        a_batch(5, "head", "staged", 1),
    ],
    ranges=[
        a_range(1, 0, 10, inserted=9, quarantined=1),
        a_range(2, 10, 20, inserted=10),
        a_range(3, 9, 10, inserted=1),
        a_range(4, 9, 10),
        a_range(5, 20, 25),
    ],
    slices=[a_slice(1, 1, 0, 10), a_slice(2, 2, 10, 20), a_slice(3, 1, 9, 10), a_slice(5, 1, 20, 25)],
    rereads=[],
    events=numbered(
        *events_of(1, *COMMITTED),
        *events_of(2, *CLAIMED_TWICE),
        *events_of(4, "planned", "abandoned"),
        *events_of(3, *COMMITTED),
        *events_of(5, "planned", "staging", "staged"),
    ),
    quarantine=[
        {"quarantine_id": 1, "pipeline": "orders", "topic_id": LOG, "partition": 0, "offset": 9, "batch_id": 1,
         "resolved_by": 3, "retried_by": None, "dismissed_by": None}
    ],
    redriven=[
        {"batch_id": 3, "quarantine_id": 1, "outcome": "resolved"},
        {"batch_id": 4, "quarantine_id": 1, "outcome": "abandoned"},
    ],
    written=[
        {"_batch_id": number, "_topic": None, "_partition": 0, "_offset": offset}
        for number, offsets in WRITTEN.items()
        for offset in offsets
    ],
)  # fmt: skip


def changed(name: str, place: int, **values: object) -> Tables:
    """The honest tables with other values in one row."""
    rows = [dict(row) for row in getattr(HONEST, name)]
    rows[place].update(values)
    return HONEST._replace(**{name: rows})


def second_from(start: int) -> Tables:
    """Batch 2 begins elsewhere, and has staged what it says."""
    ranges = changed("ranges", 1, from_offset=start, inserted=20 - start).ranges
    return changed("slices", 1, rows=20 - start, min_offset=start)._replace(ranges=ranges)


def with_events(*events: Line) -> Tables:
    return HONEST._replace(events=numbered(*events))


def event_at(number: int, place: int) -> int:
    """The place of an event of a batch among all."""
    places = [at for at, event in enumerate(HONEST.events) if event["batch_id"] == number]
    return places[place]


def without_event(number: int, place: int) -> Tables:
    left_out = event_at(number, place)
    return with_events(*(event for at, event in enumerate(HONEST.events) if at != left_out))


def test_an_honest_history_is_allowed() -> None:
    assert replay.replay(HONEST) == Counts(batches=5, events=21, transitions=16)


def ahead(*order: tuple[int, int]) -> Tables:
    """Batch 2 is planned ahead of batch 1: so many events of one of them, and so on in turns."""
    planned, *rest = events_of(2, *COMMITTED[:2], *COMMITTED[1:])
    own = {1: events_of(1, *COMMITTED), 2: [{**planned, "why": "ahead of batch 1 of orders (head, staged)"}, *rest]}
    turns = [own[number].pop(0) for number, count in order for _ in range(count)]
    return with_events(*turns, *(event for event in HONEST.events if event["batch_id"] not in own))


def test_a_batch_ahead_is_staged_and_waits() -> None:
    assert replay.replay(ahead((1, 3), (2, 3), (1, 1), (2, 1), (1, 1), (2, 2))) == Counts(5, 21, 16)


def test_a_batch_ahead_that_does_not_wait_is_refused() -> None:
    with pytest.raises(NotAllowedError, match=r"batch 2 .*event 8: staged -> validated.*it waits for batch 1"):
        replay.replay(ahead((1, 3), (2, 5), (1, 2), (2, 1)))


PAST_THE_END = {
    "batch_id": 1,
    "at": AT,
    "from_state": "committed",
    "to_state": "staging",
    "epoch": 2,
    "who": "x",
    "why": None,
}
ONE_AFTER_THE_OTHER = [event for event in HONEST.events if event["batch_id"] not in (1, 2)]
FORBIDDEN = {
    "a state skipped": (without_event(1, 2), "batch 1 .* event 3: staged -> validated.*the batch was staging"),
    "a way that the diagram has not": (
        changed("events", event_at(1, 3), to_state="committed"),
        "event 4: staged -> committed.*expected: staged leads to abandoned or rejected or staging or validated",
    ),
    "an epoch going back": (
        changed("events", event_at(2, 3), epoch=1),
        "batch 2 .* event 9: staging -> staged, epoch 1.*only_the_newest_claim_moves_a_batch.*staging 1, staging 2",
    ),
    "an epoch that no claim began": (changed("events", event_at(1, 2), epoch=2), "only_the_newest_claim"),
    "an ended batch moved": (with_events(*HONEST.events, PAST_THE_END), "event 22.*committed leads to nothing"),
    "given up by nobody": (changed("events", event_at(4, 1), why=None), "a person decides that, and says why"),
    "two open heads": (
        with_events(*events_of(2, "planned"), *events_of(1, *COMMITTED), *events_of(2, *CLAIMED_TWICE)[1:],
                    *ONE_AFTER_THE_OTHER),
        "batch 1 .*event 2: new -> planned.*one_head_batch_is_open",
    ),
    "a chain in another order": (
        with_events(*events_of(2, *CLAIMED_TWICE), *events_of(1, *COMMITTED), *ONE_AFTER_THE_OTHER),
        r"batch 2 .*event 6: validated -> committed.*the_chain_has_no_gap_and_no_overlap.*\(0, 10, 20\)",
    ),
    "a gap": (second_from(11), "batch 2 .*the_chain_has_no_gap_and_no_overlap"),
    "an overlap": (second_from(9), "batch 2 .*the_chain_has_no_gap_and_no_overlap"),
    "a chain that begins late": (changed("starts", 0, start_offset=2), "batch 1 .*the_chain_has_no_gap"),
    "a sheet that does not add up": (changed("ranges", 0, inserted=8), "batch 1 .*a_sheet_counts_every_offset_once"),
    "a sheet of an open batch": (
        changed("ranges", 4, **a_range(5, 20, 25, inserted=5)),
        "the tables.*a_sheet_counts_every_offset_once",
    ),
    "a committed batch without a sheet": (
        changed("ranges", 0, **dict.fromkeys(Sheet._fields)), "batch 1 .*a_sheet_counts_every_offset_once",
    ),
    "a manifest that lacks a slice": (
        changed("batches", 0, slices_expected=2), "event 3: staging -> staged.*what_is_sealed_is_whole",
    ),
    "a manifest that lacks an offset": (changed("slices", 1, rows=9), "batch 2 .*what_is_sealed_is_whole"),
    "a cursor that differs from the chain": (
        changed("cursors", 0, next_offset=10), "the cursor is 10, the commits lead to 20",
    ),
    "a cursor that is not there": (HONEST._replace(cursors=[]), "the cursor is None, the commits lead to 20"),
    "a batch whose events ended elsewhere": (
        changed("batches", 4, state="validated"), "batch 5 is validated, epoch 1; its events left it staged, epoch 1",
    ),
    "a batch without events": (
        with_events(*(event for event in HONEST.events if event["batch_id"] != 5)), "batch 5 .*its events are missing",
    ),
    "a record in two open redrives": (
        with_events(*HONEST.events[:11], *events_of(4, "planned"), *events_of(3, *COMMITTED)),
        "batch 3 .*event 13: new -> planned.*a_record_is_redriven_by_one_batch",
    ),
    "a record resolved, and redriven again": (
        with_events(*HONEST.events[:11], *events_of(3, *COMMITTED), *events_of(4, "planned", "abandoned")),
        "batch 4 .*event 17: new -> planned.*a_record_is_redriven_by_one_batch",
    ),
    "a record resolved by a batch that did not": (
        changed("quarantine", 0, resolved_by=2), "offset 9: .*resolved by 2, .*lead to 3 and 0",
    ),
    "quarantine of a range that was not committed": (
        changed("quarantine", 0, offset=10), "quarantine_lies_in_committed_ranges",
    ),
    "a row of a batch that is open": (
        HONEST._replace(written=[*HONEST.written[1:], {**HONEST.written[0], "_batch_id": 5, "_offset": 20}]),
        "the tables.*rows_lie_in_committed_ranges",
    ),
    "a row lost": (HONEST._replace(written=HONEST.written[1:]), "the tables.*the_table_has_what_was_added"),
}  # fmt: skip


@pytest.mark.parametrize(("tables", "story"), FORBIDDEN.values(), ids=FORBIDDEN)
def test_a_forbidden_history_is_refused(tables: Tables, story: str) -> None:
    with pytest.raises(NotAllowedError, match=story):
        replay.replay(tables)


def resolved_twice() -> Tables:
    """Both redrives have resolved the record: the second was planned before the first had ended, unnoticed."""
    batches = [a_batch(4, "redrive", "committed", 1) if row["batch_id"] == 4 else row for row in HONEST.batches]
    ranges = [a_range(4, 9, 10, duplicate=1) if row["batch_id"] == 4 else row for row in HONEST.ranges]
    redriven = [{**row, "outcome": "resolved"} for row in HONEST.redriven]
    events = numbered(*HONEST.events[:11], *events_of(3, *COMMITTED), *events_of(4, *COMMITTED))
    slices = [*HONEST.slices, a_slice(4, 1, 9, 10)]
    return HONEST._replace(batches=batches, ranges=ranges, redriven=redriven, events=events, slices=slices)


@pytest.mark.parametrize("unnoticed", [(), ("a_record_is_redriven_by_one_batch",)])
def test_a_record_resolved_twice_is_refused(unnoticed: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """By its second plan; and by its second commit, where the plan is not asked."""
    asked = tuple(each for each in replay.OF_THE_PAST if each.__name__ not in unnoticed)
    monkeypatch.setattr(replay, "OF_THE_PAST", asked)
    with pytest.raises(NotAllowedError, match="a_record_is_resolved_once" if unnoticed else "planned.*redriven_by_one"):
        replay.replay(resolved_twice())


def pruned(tables: Tables) -> Tables:
    """Batch 2 stands for both head batches, and for a replay that added a row; the record that was redriven is gone."""
    names = ("batches", "ranges", "slices", "events")
    left = {name: [row for row in getattr(tables, name) if row["batch_id"] != 1] for name in names}
    left["batches"][0] = {**left["batches"][0], "kind": "pruned", "slices_expected": 0}
    left["ranges"][0] = a_range(2, 0, 20, inserted=18, updated=1, quarantined=1)
    del left["slices"][0]
    rereads = [{"batch_id": 2, "partition": 0, "added": 1, "spans": [[2, 4], [6, 9]]}]
    return tables._replace(**left, rereads=rereads, quarantine=[], redriven=[])


def test_what_a_prune_has_left_is_allowed() -> None:
    assert replay.replay(pruned(HONEST)) == Counts(batches=4, events=16, transitions=12)


def test_what_a_prune_has_left_must_reach_from_start_to_cursor() -> None:
    tables = pruned(HONEST)
    with pytest.raises(NotAllowedError, match="the_chain_has_no_gap_and_no_overlap"):
        replay.replay(tables._replace(ranges=[a_range(2, 5, 20, inserted=15), *tables.ranges[1:]]))


def test_the_replay_knows_only_the_vocabulary_and_the_model() -> None:
    for module in (ledger, replay):
        for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text())):
            if isinstance(node, ast.ImportFrom):
                assert (
                    not (node.module or "").startswith("offset_ledger") or node.module == "offset_ledger.model.states"
                )
