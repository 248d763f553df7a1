"""A replay with ``fill`` writes rows again whose newest state is the very record that it reads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from offset_ledger.errors import LedgerViolation
from offset_ledger.model.balance_sheet import Dispositions
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.request import Request, RunAction
from offset_ledger.model.states import BatchKind
from offset_ledger.operations.repair.verify import verify
from offset_ledger.pipeline_file.pipeline import Evolve, Merge, Pipeline
from offset_ledger.postgres.ledger import batches
from offset_ledger.postgres.ledger.database import Session, transaction
from offset_ledger.steps.commit.step import commit
from tests.fixtures.staged import ME, Event, a_pipeline, a_snapshot, staged, validated
from tests.fixtures.tables import do
from tests.integration.postgres.committed import BOTH, rows, run
from tests.integration.postgres.table.test_evolve import of_type, with_column

# Of b both records are read again, and the newer one stands; d is deleted; e stands by a record outside of the range.
FIRST = [Event(1, 0, 0, "a"), Event(1, 0, 1, "b"), Event(2, 0, 2, "b"), Event(3, 0, 3, "c"), Event(4, 0, 4, "d", True)]
RANGE = [OffsetRange(0, 0, 6)]
EARLIER, LATER = Event(5, 0, 5, "e"), Event(9, 0, 6, "e")


def filled(session: Session, pipeline: Pipeline, events: list[Event], values: str, fill: bool = True) -> Dispositions:
    """Replay the range, with these values in what is staged."""
    request = Request(RunAction.RANGES, ranges=tuple(RANGE), fill=fill).key
    with transaction(session) as cursor:
        args = (BatchKind.REPLAY, a_snapshot(pipeline), RANGE, ME, None, request)
        batch_id = batches.insert_batch(cursor, pipeline, *args)
    tables = staged(session, pipeline, batch_id, events, "transaction")
    do(session, f"UPDATE offset_ledger_staging.{tables.rows} SET {values} WHERE NOT _deleted")
    validated(session, tables)
    total = commit(pipeline, batch_id, ME).total
    assert commit(pipeline, batch_id, ME).already
    return total


def loaded(session: Session, merge: Merge) -> Pipeline:
    """A table of two batches, whose pipeline file then got another column."""
    before = a_pipeline(merge=merge)
    run(session, before, RANGE, [*FIRST, EARLIER])
    run(session, before, [OffsetRange(0, 6, 7)], [LATER])
    return with_column(before, of_type("amount", "integer"), Evolve.ADD_COLUMNS)


def amounts(session: Session) -> dict[object, object]:
    return dict(rows(session, "SELECT event_id, state || ' ' || coalesce(amount::text, '') FROM orders"))


def test_the_column_is_filled_where_the_newest_state_is_read_again_and_nowhere_else(session: Session) -> None:
    pipeline = loaded(session, Merge.NEWEST_WINS)
    total = filled(session, pipeline, [*FIRST, EARLIER], "amount = 7")
    assert total == Dispositions(updated=3, superseded=2, duplicate=1)
    assert amounts(session) == {"a": "1/0/0 7", "b": "2/0/2 7", "c": "3/0/3 7", "d": None, "e": "9/0/6 "}
    again = filled(session, pipeline, [*FIRST, EARLIER], "amount = 7")
    assert again == Dispositions(superseded=2, duplicate=4)
    assert verify(pipeline)[0] == []


def test_with_skip_existing_the_record_that_stands_is_the_one_that_fills(session: Session) -> None:
    pipeline = loaded(session, Merge.SKIP_EXISTING)
    total = filled(session, pipeline, [*FIRST, EARLIER], "amount = 7")
    assert total == Dispositions(updated=4, duplicate=2)
    assert amounts(session) == {"a": "1/0/0 7", "b": "1/0/1 7", "c": "3/0/3 7", "d": None, "e": "5/0/5 7"}
    assert verify(pipeline)[0] == []


@BOTH
def test_without_it_no_row_changes(session: Session, how: Merge) -> None:
    pipeline = loaded(session, how)
    before = rows(session, "SELECT event_id, state, _batch_id FROM orders ORDER BY 1")
    total = filled(session, pipeline, [*FIRST, EARLIER], "amount = 7", fill=False)
    assert (total.inserted, total.updated, total.deleted) == (0, 0, 0)
    assert rows(session, "SELECT event_id, state, _batch_id FROM orders ORDER BY 1") == before
    assert rows(session, "SELECT count(amount) FROM orders") == [(0,)]


def test_a_newer_record_of_the_replay_is_merged_and_not_counted_twice(session: Session) -> None:
    pipeline = loaded(session, Merge.NEWEST_WINS)
    newer = Event(8, 0, 5, "a")
    assert filled(session, pipeline, [*FIRST, newer], "amount = 7") == Dispositions(
        updated=3, superseded=2, duplicate=1
    )
    assert amounts(session)["a"] == "8/0/5 7"
    assert verify(pipeline)[0] == []


def test_what_is_declared_no_more_is_emptied(session: Session) -> None:
    noted = a_pipeline()
    run(session, noted, RANGE, [*FIRST, EARLIER], notes={"a": "kept until now"})
    columns = tuple(column for column in noted.record.columns if column.name != "note")
    pipeline = replace(noted, record=replace(noted.record, columns=columns), config_hash="changed")
    assert filled(session, pipeline, [*FIRST, EARLIER], "state = state").updated == 1
    assert rows(session, "SELECT count(note) FROM orders") == [(0,)]


@pytest.mark.parametrize("body", ["RETURN NULL", "NEW.amount := 1; RETURN NEW"])
def test_a_trigger_that_keeps_a_row_from_being_filled_stops_the_commit(session: Session, body: str) -> None:
    pipeline = loaded(session, Merge.NEWEST_WINS)
    run(session, pipeline, [OffsetRange(0, 7, 8)], [Event(10, 0, 7, "f")])
    do(
        session,
        f"CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN {body}; END$$",
        "CREATE TRIGGER keep BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION keep()",
    )
    with pytest.raises(LedgerViolation, match=r"triggers of the table \(keep\)"):
        filled(session, pipeline, [*FIRST, EARLIER], "amount = 7")
    assert amounts(session)["a"] == "1/0/0 "
