"""The classes of the staged rows, counted beside the merge: they close the same balance sheet as the account does."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from tenacity import Retrying, stop_after_delay, wait_fixed

from offset_ledger.commit import merge
from offset_ledger.commit.step import Committed, commit
from offset_ledger.config.model import Evolve, Merge, Pipeline
from offset_ledger.connections import Connection
from offset_ledger.errors import IncompleteStaging, OffsetLedgerError
from offset_ledger.ledger.database import Session, transaction
from offset_ledger.ledger.staging import StagingTables
from offset_ledger.model.balance_sheet import Dispositions
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.states import BatchKind
from offset_ledger.repair.verify import verify
from offset_ledger.sandbox.layout import free_ports
from tests.fixtures.servers import execute
from tests.fixtures.staged import ME, Event, a_pipeline, planned, staged, validated
from tests.integration.table.test_evolve import of_type, with_column


def ranges(first: int = 0) -> list[OffsetRange]:
    return [OffsetRange(partition, first, first + 40) for partition in range(3)]


@pytest.fixture(autouse=True)
def any_size_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of any size are classified."""
    monkeypatch.setattr(merge, "CLASSIFIED_FROM", 1)


@pytest.fixture
def accounts(monkeypatch: pytest.MonkeyPatch) -> list[StagingTables]:
    """The batches that the account was asked for."""
    asked, account = list[StagingTables](), merge._account

    def noted(cursor: object, pipeline: object, names: object, tables: StagingTables, *more: object) -> object:
        asked.append(tables)
        return account(cursor, pipeline, names, tables, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(merge, "_account", noted)
    return asked


def some_events(seed: int, first: int = 0) -> list[Event]:
    """Three partitions of forty records of few events, many of them of the same moment."""
    chance = random.Random(seed)
    return [
        Event(chance.randrange(5), partition, first + offset, f"e{chance.randrange(30)}", chance.random() < 0.1)
        for partition in range(3)
        for offset in range(40)
    ]


def committed(
    session: Session, pipeline: Pipeline, events: list[Event], first: int = 0, kind: BatchKind = BatchKind.HEAD
) -> Committed:
    batch_id = planned(session, pipeline, ranges(first), kind)
    validated(session, staged(session, pipeline, batch_id, events))
    return commit(pipeline, batch_id, ME)


def expected(events: list[Event]) -> dict[int, Dispositions]:
    """The sheet of a first batch, from the events alone."""
    best: dict[str, Event] = {}
    for event in sorted(events):
        best[event.event_id] = event
    sheet = dict[int, Dispositions]()
    for event in events:
        winner = best[event.event_id]
        if event is winner:
            what = "deleted" if event.deleted else "inserted"
        else:
            what = "duplicate" if event.publish_at == winner.publish_at else "superseded"
        sheet[event.partition] = sheet.get(event.partition, Dispositions()) + Dispositions(**{what: 1})
    return sheet


@pytest.mark.parametrize("seed", range(5))
def test_a_first_batch_needs_no_account(session: Session, accounts: list[StagingTables], seed: int) -> None:
    events = some_events(seed)
    assert committed(session, a_pipeline(), events).sheet == expected(events)
    assert accounts == []


@pytest.mark.parametrize("seed", range(5))
def test_batches_that_meet_rows_of_the_table_have_the_sheets_of_the_account(
    session: Session, accounts: list[StagingTables], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    pipeline, other = a_pipeline(), a_pipeline("others")
    first, second = some_events(seed), some_events(seed + 100, first=40)
    for each, classified in ((pipeline, 1), (other, 1_000)):
        monkeypatch.setattr(merge, "CLASSIFIED_FROM", classified)
        sheets = [committed(session, each, first).sheet, committed(session, each, second, 40).sheet]
        sheets += [committed(session, each, first, kind=BatchKind.REPLAY).sheet]
        if each is pipeline:
            assert accounts == []
            beside = sheets
    assert sheets == beside
    assert verify(pipeline)[0] == []


def test_a_table_that_the_commit_itself_changes_is_accounted_for(
    session: Session, accounts: list[StagingTables]
) -> None:
    pipeline = a_pipeline()
    committed(session, pipeline, some_events(7))
    wider = with_column(pipeline, of_type("amount", "integer"), Evolve.ADD_COLUMNS)
    committed(session, wider, some_events(8, first=40), 40)
    assert len(accounts) == 1


def test_a_table_that_keeps_its_first_row_is_accounted_for(session: Session, accounts: list[StagingTables]) -> None:
    sheet = committed(session, a_pipeline(merge=Merge.SKIP_EXISTING), some_events(3)).sheet
    assert sum(each.superseded for each in sheet.values()) == 0
    assert len(accounts) == 1


def test_a_session_that_cannot_be_opened_costs_the_account_and_nothing_else(
    session: Session, accounts: list[StagingTables], database: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = replace(database, port=free_ports(1)[0])
    monkeypatch.setattr(merge, "get_connection", lambda _: nowhere)
    monkeypatch.setattr(merge, "_SECONDS", 0)
    events = some_events(4)
    assert committed(session, a_pipeline(), events).sheet == expected(events)
    assert len(accounts) == 1


def test_rows_that_the_slices_do_not_know_are_seen(session: Session, database: Connection) -> None:
    pipeline = a_pipeline()
    batch_id = planned(session, pipeline, ranges())
    tables = staged(session, pipeline, batch_id, some_events(5))
    validated(session, tables)
    rows = f"offset_ledger_staging.{tables.rows}"
    one = f"SELECT ctid FROM {rows} AS a WHERE EXISTS (SELECT FROM {rows} AS b WHERE a.event_id = b.event_id "
    execute(database, f"DELETE FROM {rows} WHERE ctid IN ({one} AND a.publish_at < b.publish_at) LIMIT 1)")
    with pytest.raises(IncompleteStaging):
        commit(pipeline, batch_id, ME)


def test_a_merge_that_fails_leaves_no_session_behind(session: Session, database: Connection) -> None:
    pipeline = a_pipeline()
    committed(session, pipeline, some_events(6))
    execute(database, "ALTER TABLE public.orders ADD CONSTRAINT never CHECK (_offset < 40)")
    with pytest.raises(OffsetLedgerError, match="never"):
        committed(session, pipeline, [Event(9, p, 40 + n, f"f{n % 9}") for p in range(3) for n in range(40)], 40)
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE %s"
    for attempt in Retrying(stop=stop_after_delay(60), wait=wait_fixed(0.02)):  # a session ends after its socket
        with attempt, transaction(session) as cursor:
            assert cursor.execute(query, ["offset-ledger b% commit"]).one()[0] == 0
