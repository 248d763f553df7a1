"""What goes wrong with processes and servers, and what lives outside of Postgres: the dead letters."""

from __future__ import annotations

from collections.abc import Iterator

from offset_ledger.model.states import State as BatchState
from tests.model.rules import Defect, Rules, Step
from tests.model.state import (
    DELIVERED,
    SENDING,
    SENT,
    STAGING,
    UNSURE,
    WAITING,
    Attempt,
    Database,
    Position,
    Staging,
    State,
    changed,
)  # fmt: skip


def kill(rules: Rules, state: State) -> Iterator[Step]:
    """A process dies."""
    if rules.may(state, "kill"):
        for a in set(state.attempts):
            yield Step("kill", (a.batch, a.epoch, a.doing), rules.spend(state, "kill").with_attempt(a, None))


def crash(rules: Rules, state: State) -> Iterator[Step]:
    """Postgres crashes: staging is empty, and the last slices that no seal has made durable may be out of the manifest.

    Steps that need their session end; tasks that stage slices connect again.
    """
    if rules.may(state, "crash"):
        staging = changed(state.staging, lambda each: each._replace(rows=(), refused=()))
        attempts = tuple(a for a in state.attempts if a.doing in (STAGING, UNSURE, SENDING))
        after = rules.spend(state, "crash")._replace(staging=staging, attempts=attempts)
        yield Step("crash", ("nothing",), after)
        for batch in state.db.batches:
            if batch.state is BatchState.STAGING and batch.expected is None:
                for kept in range(len(batch.slices)):
                    db = state.db.with_batch(batch._replace(slices=batch.slices[:kept]))
                    lost = f"{len(batch.slices) - kept} slices of batch {batch.number}"
                    yield Step("crash", (lost,), after._replace(db=db))


def replicate(rules: Rules, state: State) -> Iterator[Step]:
    """The standby has everything up to now, or a backup is made; what comes later may be lost."""
    if rules.may(state, "replicate") and state.earlier != state.db:
        yield Step("replicate", (), rules.spend(state, "replicate")._replace(earlier=state.db))


def failover(rules: Rules, state: State) -> Iterator[Step]:
    """The standby is promoted."""
    if rules.may(state, "failover") and state.earlier:
        yield Step("failover", (), _gone_back(rules.spend(state, "failover"), state.earlier)._replace(earlier=None))


def restore(rules: Rules, state: State) -> Iterator[Step]:
    """The database is restored from the backup, which can be used again."""
    if rules.may(state, "restore") and state.earlier:
        yield Step("restore", (), _gone_back(rules.spend(state, "restore"), state.earlier))


def _gone_back(state: State, earlier: Database) -> State:
    """Staging is UNLOGGED, so empty. Sessions of steps are lost; tasks that stage slices connect to what is there."""
    claimed = (b for b in earlier.batches if b.state.is_open and b.epoch)
    staging = tuple(Staging(b.number, b.epoch, b.file) for b in claimed)
    attempts = (a for a in state.attempts if a.doing in (STAGING, UNSURE, SENDING))
    return state._replace(db=earlier, staging=staging, attempts=tuple(sorted(map(orphaned, attempts))))


def orphaned(a: Attempt) -> Attempt:
    """The attempt without a session."""
    return a if a.doing == UNSURE or a.memory[-1:] == ("orphan",) else a._replace(memory=(*a.memory, "orphan"))


# -- dead letters ------------------------------------------------------------------------------------------------------


def read_back(rules: Rules, state: State) -> Iterator[Step]:
    """A delivery takes the transactional id, marks the letters above the mark, and takes those that still wait."""
    if rules.is_free(state) and any(q.letter == WAITING and not q.dismissed for q in state.db.quarantine):
        unmarked = state.letters[state.db.mark :]
        known = {each.position for each in state.db.quarantine}
        ahead = {each for each in unmarked if each not in known and not _is_read(state.db, each)}
        if rules.defect is Defect.LETTERS_FORGOTTEN:
            ahead = set()
        first = min((state.letters.index(each) for each in ahead), default=len(state.letters))
        db = _delivered(state.db, unmarked)._replace(mark=max(state.db.mark, first))
        waits = (q.position for q in db.quarantine if q.letter == WAITING and not q.dismissed)
        sent = tuple(each for each in waits if each not in ahead)
        fenced = tuple(a for a in state.attempts if a.doing != SENDING)  # its transaction is aborted
        after = state._replace(db=db, attempts=fenced)
        a = Attempt(SENDING, 0, memory=(bool(ahead), *sent))
        if sent or db != state.db:
            yield Step("read back", (len(sent),), after.with_attempt(None, a) if sent else after)


def _is_read(db: Database, position: Position) -> bool:
    topic, log, partition, offset = position
    source = db.sources[topic]
    place = source.known().get(partition)
    return source.log == log and place is not None and offset < place.next


def _delivered(db: Database, positions: tuple[Position, ...]) -> Database:
    return db._replace(
        quarantine=changed(
            db.quarantine,
            lambda q: q._replace(letter=DELIVERED) if q.letter == WAITING and q.position in positions else q,
        )
    )


def send(rules: Rules, state: State) -> Iterator[Step]:
    """The letters are published, and Kafka's transaction commits."""
    for a in set(state.attempts):
        if a.doing == SENDING:
            orphan = a.memory[-1] == "orphan"
            sent = a.memory[1:-1] if orphan else a.memory[1:]
            after = state._replace(letters=(*state.letters, *sent))
            published = a._replace(doing=SENT, memory=(a.memory[0], len(after.letters), *sent))
            yield Step("send", (len(sent),), after.with_attempt(a, None if orphan else published))


def mark(rules: Rules, state: State) -> Iterator[Step]:
    """The delivery marks what it has published; not beyond a letter whose record is to be quarantined again."""
    for a in set(state.attempts):
        if a.doing == SENT:
            ahead, end, *sent = a.memory
            db = _delivered(state.db, tuple(sent))
            db = db if ahead else db._replace(mark=max(db.mark, end))
            yield Step("mark", (len(sent),), state._replace(db=db).with_attempt(a, None))
