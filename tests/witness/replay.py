"""The history of a ledger, event by event, through the model: what it does not allow is a story of one event."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from offset_ledger.model.states import TRANSITIONS
from offset_ledger.model.states import State as BatchState
from tests.model import invariants
from tests.model.invariants import DATABASE, allowed
from tests.model.repair import is_link
from tests.model.rules import World
from tests.model.state import Batch, Database, LogId, Quarantined, State
from tests.witness.ledger import Ledger, Line, Query, Tables, by_batch, files, read_tables

# Of the past the table is not known, only which of its rows stand today; nor where ranges ended that were cut later.
NOT_OF_THE_PAST = (invariants.the_table_has_what_was_added, invariants.a_batch_ahead_begins_where_the_open_one_ends)
OF_THE_PAST = tuple(each for each in DATABASE if each not in NOT_OF_THE_PAST)
# Between the last event and the tables as they are now, there may have been prunes and dismissals, and nothing else.
UNTIL_NOW = (
    invariants.batches_move_as_the_diagram_says,
    invariants.cursors_go_forward,
    invariants.a_record_is_resolved_once,
)


_AHEAD = re.compile(r"ahead of batch (\d+) ")


class NotAllowedError(Exception):
    """A history that the model does not allow; its text is the story."""


class Counts(NamedTuple):
    """How much was replayed."""

    batches: int = 0
    events: int = 0
    transitions: int = 0

    def __str__(self) -> str:
        batches = "1 batch" if self.batches == 1 else f"{self.batches:,} batches"
        return f"{batches}, {self.events:,} events, {self.transitions:,} transitions"

    def plus(self, other: Counts) -> Counts:
        """Both together."""
        return Counts(*(a + b for a, b in zip(self, other, strict=True)))


def witness(query: Query) -> Counts:
    """Replay all that a ledger has kept.

    Raises:
        NotAllowedError: the model does not allow it.
    """
    counts = Counts()
    for file in files(query):
        counts = counts.plus(replay(read_tables(query, file)))
    return counts


def replay(tables: Tables) -> Counts:
    """Replay the events of one pipeline file, in the order in which they were written, up to its tables as they are.

    Raises:
        NotAllowedError: the model does not allow it.
    """
    history = _History(Ledger(tables))
    for event in tables.events:
        history.take(event)
    history.compare()
    moves = sum(event["from_state"] is not None for event in tables.events)
    return Counts(len(tables.batches), len(tables.events), moves)


class _History:
    """The database after the events that were taken so far."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.world = World("witness", "what a run has left", (), (), transactional=ledger.explains_gaps)
        self.batches: dict[int, Batch] = {}
        self.cursors: dict[tuple[int, LogId, int], int] = {}
        self.quarantine: dict[int, Quarantined] = {}
        self.events = by_batch(ledger.tables.events)
        tried = {row["quarantine_id"] for row in ledger.tables.redriven}
        self.refused = by_batch(each for key, each in ledger.records.items() if key in tried)
        self.db = self._database()

    def _database(self) -> Database:
        return Database(
            sources=self.ledger.sources(self.cursors),
            table=(),
            batches=tuple(self.batches.values()),
            quarantine=tuple(self.quarantine.values()),
        )

    def take(self, event: Line) -> None:
        """Let the next event happen."""
        batch = self._moved(event)
        self.batches[batch.number] = batch
        if is_link(batch):
            for r in batch.ranges:
                self.cursors[batch.topic, batch.log, r.partition] = r.end
        if batch.state is BatchState.COMMITTED:
            self._settle(batch.number)
        if ahead := next((b for b in self.batches.values() if b.after == batch.number), None):
            if batch.state in (BatchState.STAGING, BatchState.ABANDONED):
                return  # the next event is of the same transaction, and gives up what was ahead
            if batch.state is BatchState.COMMITTED:
                self.batches[ahead.number] = ahead._replace(after=0)
        before, self.db = self.db, self._database()
        broken = allowed(self.world, State((), before), State((), self.db))
        broken += [each.__name__ for each in OF_THE_PAST if not each(self.world, self.db)]
        if broken:
            self._refuse(event, _meaning(getattr(invariants, broken[0])))

    def _moved(self, event: Line) -> Batch:
        """The batch after the event. Its epoch is the number of its claims, whatever the event says."""
        was, to = self.batches.get(event["batch_id"]), BatchState(event["to_state"])
        if was is None:
            if (event["from_state"], to) != (None, BatchState.PLANNED):
                self._refuse(event, "a batch begins as planned")
            said = _AHEAD.match(event["why"] or "")
            after = int(said[1]) if said and int(said[1]) in self.batches else 0  # 0: that one was pruned
            return self.ledger.batch_in(event["batch_id"], to, 0, event["epoch"])._replace(after=after)
        if event["from_state"] != was.state:
            self._refuse(event, f"the batch was {was.state} after the events before")
        if to not in TRANSITIONS[was.state]:
            self._refuse(event, f"{was.state} leads to {' or '.join(sorted(TRANSITIONS[was.state])) or 'nothing'}")
        if was.after and to not in (*invariants.NOT_JUDGED, BatchState.ABANDONED):
            self._refuse(event, f"it waits for batch {was.after}")
        decided = to is BatchState.ABANDONED or (was.state, to) == (BatchState.REJECTED, BatchState.VALIDATED)
        if decided and not event["why"]:
            self._refuse(event, "a person decides that, and says why")
        epoch = was.epoch + (to is BatchState.STAGING)
        batch = self.ledger.batch_in(was.number, to, epoch, event["epoch"])
        return batch._replace(after=0 if to is BatchState.ABANDONED else was.after)

    def _settle(self, number: int) -> None:
        """Let a commit put records into quarantine and, of a redrive, settle those it has chosen."""
        for row in self.refused[number]:
            self.quarantine[row["quarantine_id"]] = self.ledger.quarantined(row)
        for row in self.ledger.redriven[number]:
            if record := self.quarantine.get(row["quarantine_id"]):
                by = {"resolved_by": number} if row["outcome"] == "resolved" else {"tried_by": number}
                self.quarantine[row["quarantine_id"]] = record._replace(**by)

    def _refuse(self, event: Line, expected: str) -> NoReturn:
        row = self.ledger.rows[event["batch_id"]]
        events = self.events[event["batch_id"]]
        past = [f"{each['to_state']} {each['epoch']}" for each in events if each["event_id"] < event["event_id"]]
        ranges = [(r["partition"], r["from_offset"], r["until_offset"]) for r in self.ledger.ranges[event["batch_id"]]]
        raise NotAllowedError(
            f"batch {event['batch_id']} ({row['kind']} of {row['pipeline']}), event {event['event_id']}: "
            f"{event['from_state'] or 'new'} -> {event['to_state']}, epoch {event['epoch']}, by {event['who']} at "
            f"{event['at']}; expected: {expected}; its events before: {', '.join(past) or 'none'}; "
            f"its ranges: {', '.join(map(str, ranges)) or 'none'}"
        )

    def compare(self) -> None:
        """Compare with the tables as they are now."""
        ledger = self.ledger
        for number, row in ledger.rows.items():
            was = self.batches.get(number)
            if was is None or (was.state, was.epoch) != (row["state"], row["epoch"]):
                left = f"left it {was.state}, epoch {was.epoch}" if was else "are missing"
                raise NotAllowedError(f"batch {number} is {row['state']}, epoch {row['epoch']}; its events {left}")
        for place in sorted({*self.cursors, *(cursors := ledger.cursors())}):
            if cursors.get(place) != self.cursors.get(place):
                name = ledger.tables.pipelines[place[0]]["pipeline"]
                raise NotAllowedError(
                    f"{name} partition {place[2]}: the cursor is {cursors.get(place)}, "
                    f"the commits lead to {self.cursors.get(place)}"
                )
        replayed = {each.position: each for each in self.quarantine.values()}
        for now in ledger.quarantine_now():
            then = replayed.get(now.position, now._replace(resolved_by=0, tried_by=0))
            if then[5:8] != now[5:8]:
                name = ledger.tables.pipelines[now.topic]["pipeline"]
                raise NotAllowedError(
                    f"{name} partition {now.partition} offset {now.offset}: "
                    f"the quarantine says resolved by {now.resolved_by}, tried by {now.tried_by} (0: by none); "
                    f"the redrives lead to {then.resolved_by} and {then.tried_by}"
                )
        self._compare_statements()

    def _compare_statements(self) -> None:
        ledger = self.ledger
        now = self.db._replace(
            sources=ledger.sources(ledger.cursors()),
            table=ledger.table(),
            batches=tuple(ledger.batch_now(b.number, b.moved_by) for b in sorted(self.batches.values())),
            quarantine=ledger.quarantine_now(),
        )
        broken = [each for each in UNTIL_NOW if not each(self.world, State((), self.db), State((), now))]
        broken += [each for each in DATABASE if not each(self.world, now)]
        if broken:
            raise NotAllowedError(f"the tables, after all events; expected: {_meaning(broken[0])}")


def _meaning(statement: Callable[..., bool]) -> str:
    return f"{statement.__doc__} ({statement.__name__})"
