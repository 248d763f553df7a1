"""The steps of the model, taken by the real code: each leaves a database that is the model's."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from unittest import mock

import psycopg2
import psycopg2.errors
from psycopg2 import sql
from psycopg2.extras import RealDictCursor

from offset_ledger.base.failpoints import Failpoint
from offset_ledger.errors import (
    BatchRejected,
    ConfigurationError,
    OffsetLedgerError,
    ProducerFenced,
    StateConflict,
    TargetMismatch,
)  # fmt: skip
from offset_ledger.model.batch import Origin
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.request import Request, RunAction
from offset_ledger.model.states import BatchKind
from offset_ledger.model.states import State as BatchState
from offset_ledger.operations.repair.prune import prune_beyond
from offset_ledger.outside.connections import Connection
from offset_ledger.pipeline_file.pipeline import ROWS_SCHEMA, Pipeline
from offset_ledger.postgres.connection import postgres_arguments
from offset_ledger.postgres.ledger.database import connect, named_sql, transaction
from offset_ledger.postgres.ledger.decisions import decide
from offset_ledger.postgres.ledger.redrive import RedriveChoice, Selection
from offset_ledger.postgres.ledger.staging import SCHEMA
from offset_ledger.postgres.table.restate import read_unfinished
from offset_ledger.steps.commit import classes
from offset_ledger.steps.commit.step import commit
from offset_ledger.steps.decide.accept_topic import accept_topic
from offset_ledger.steps.decide.answers import skip_lost
from offset_ledger.steps.decide.tombstones import approve_tombstones
from offset_ledger.steps.plan.step import plan, plan_ahead, plan_replay
from offset_ledger.steps.report.dead_letters import deliver
from offset_ledger.steps.run.redrive import dismiss, plan_redrive, stage_redrive
from offset_ledger.steps.run.remerge import restate_rows
from offset_ledger.steps.stage.step import Reader, stage
from offset_ledger.steps.validate.step import validate
from tests.fixtures.ages import same_age
from tests.machine.actors import ANSWERED, DELIVERS, LOCK, RESOLVE, SETTLE, TASKS, Actor, Letters, reach, stopping
from tests.machine.earlier import Earlier
from tests.machine.kafka import Cluster, LogReader
from tests.machine.letters import DeadLetterTopic
from tests.machine.mapping import LedgerReader, comparable, differences, log_of
from tests.machine.pipelines import FILE, TABLE, key_text, pipeline_of, table_of
from tests.model import failover
from tests.model.batch import slices_of
from tests.model.invariants import allowed, broken
from tests.model.rules import Rules, Step, Table, World
from tests.model.state import (
    COMMITTING,
    LOOKED,
    SENDING,
    SENT,
    STAGING,
    UNSURE,
    VALIDATING,
    Attempt,
    Batch,
    Database,
    State,
)  # fmt: skip
from tests.model.stories import OF_AN_ATTEMPT

T = TypeVar("T")
Pick = Callable[[Sequence[T]], T]
ME, WHY = Origin("machine"), "the machine"
STOPS = {
    LOOKED: (ANSWERED,),
    STAGING: (Failpoint.AFTER_CLAIM, Failpoint.SLICE_COMMITTED),
    VALIDATING: (SETTLE,),
    COMMITTING: (LOCK,),
    SENDING: (Failpoint.DEAD_LETTERS_SENT,),
    SENT: (Failpoint.DEAD_LETTERS_COMMITTED,),
    UNSURE: (RESOLVE,),
}
# Whose session a claim has ended looks the outcome up on its way to the end.
_NO_END = tuple(stop for doing, stops in STOPS.items() if doing not in (LOOKED, UNSURE) for stop in stops)
_WORKS = {(VALIDATING, BatchState.STAGED), (COMMITTING, BatchState.VALIDATED)}
CHOSEN_BY_LIMIT = ("plan", "plan ahead", "run")
"""What a plan with a limit takes of each partition is the code's to choose; the model allows every share."""


_TOO_MUCH = (
    "SET LOCAL temp_file_limit = 0; SET LOCAL work_mem = '64kB';"
    "SELECT count(*) FROM (SELECT repeat('x', 1000) AS x, n FROM generate_series(1, 10000) AS n ORDER BY 1, 2) AS s"
)


def _without_room(name: str) -> str:
    return _TOO_MUCH if name == "commit/classify" else named_sql(name)


class Divergence(AssertionError):
    """The code did something else than the model."""


class Bench:
    """A world of the model and a real ledger, which go through the same steps."""

    def __init__(self, world: World, first: State, postgres: Connection, letters: Letters | None = None) -> None:
        self.world, self.rules, self.state = world, Rules(world), first
        self.postgres = postgres
        self.actors: list[tuple[Attempt, Actor]] = []
        self.story: list[Step] = []
        self.last: Actor | None = None
        self.reached: Counter[str] = Counter()
        self.numbers: dict[int, int] = {}
        self._admin = psycopg2.connect(**postgres_arguments(postgres))
        self._admin.autocommit = True
        self.letters: Letters = letters or DeadLetterTopic()
        self.earlier = Earlier(self.query)
        self.kept: tuple[int, dict[int, int]] = (0, {})
        self.spellings: dict[int, str] = {}
        self.earlier.empty()  # much faster than another database
        if world.table != Table():
            self._create_table()

    def query(self, statement: Any, arguments: Any = None) -> list[Any]:
        """The rows of a statement of the superuser."""
        with self._admin.cursor(cursor_factory=RealDictCursor) as cursor:
            cursor.execute(statement, arguments)
            return cursor.fetchall() if cursor.description else []

    def _create_table(self) -> None:
        if self.world.table.collated:
            of_icu = "(provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
            self.query("DROP COLLATION IF EXISTS public.any_case")
            try:
                self.query(f"CREATE COLLATION public.any_case {of_icu}")
            except psycopg2.errors.FeatureNotSupported:  # a server without ICU
                self.query('CREATE COLLATION public.any_case FROM "POSIX"')
        for statement in table_of(self._pipeline(0), self.world):
            self.query(statement)

    @contextmanager
    def running(self) -> Iterator[Bench]:
        """Steps of this process work on this bench; attempts that are left in the end die."""
        with self._stopping():
            try:
                yield self
            finally:
                for _, actor in self.actors:
                    actor.kill()
                self._admin.close()

    def _stopping(self) -> AbstractContextManager[None]:
        nowhere = Connection("kafka_default", "kafka", extra={"bootstrap.servers": "none:1"})
        return stopping(lambda: self._cluster(lambda: reach(ANSWERED)), self.letters, nowhere, self.postgres)

    def _reader(self) -> Reader:
        return LogReader(self.world, lambda: self.state)

    def database(self) -> Database:
        """The real database, as the model has it."""
        reader = LedgerReader(self.query, len(self.state.topics), self.world, self.numbers, self.state.time)
        try:
            db = reader.database()
        except AssertionError as error:
            raise self._diverged(f"the table has what no state of the model can: {error}") from error
        before, self.spellings = self.spellings, reader.spellings
        if any(before[key] != text for key, text in reader.spellings.items() if key in before):
            raise self._diverged(f"keys were {before}, and are {reader.spellings}")
        return db._replace(mark=sum(offset < db.mark for offset in self.letters.positions()) if db.mark else 0)

    # -- a step ------------------------------------------------------------------------------------------------------

    def take(self, step: Step, pick: Pick[Any]) -> None:
        """Take the step in reality too, and compare.

        Raises:
            Divergence: the ledger is not as the model says.
        """
        steps = [step]
        if step.name in CHOSEN_BY_LIMIT:
            of_topic = (step.name, step.parameters[0], step.state.attempts)
            others = self.rules.actions(self.state)
            steps += [each for each in others if (each.name, *each.parameters[:1], each.state.attempts) == of_topic]
        before, self.story = self.state, [*self.story, step]
        self._let_claims_go_on(step)
        try:
            worked = getattr(self, f"_{step.name.split(',')[0].replace(' ', '_')}")(step, pick)
        except OffsetLedgerError as error:
            raise self._diverged(f"{type(error).__name__}: {error}") from error
        if isinstance(worked, State):  # a session that is lost, which the model does not know of this attempt
            steps = [step._replace(state=worked)]
        self.state = step.state
        real = comparable(self.database())
        taken = next((each for each in steps if comparable(each.state.db) == real), None)
        if taken is None:
            raise self._diverged("\n  ".join(differences(real, comparable(step.state.db))))
        self.state, self.story[-1] = taken.state, taken
        if self.world.letters:
            self._check_letters()
        if wrong := broken(self.world, self.state) or allowed(self.world, before, self.state, step.name):
            raise self._diverged(f"the model itself is wrong: {wrong}")

    def follow(self, *names: str | tuple[str, Any]) -> None:
        """Take a step of each name, or of a name with these parameters, one after the other.

        Raises:
            Divergence: the ledger is not as the model says.
        """
        for name in names:
            possible = self.rules.actions(self.state)
            self.take(
                next(each for each in possible if name in (each.name, (each.name, each.parameters))),
                lambda some: some[0],
            )

    def _diverged(self, what: str) -> Divergence:
        story = "\n".join(f"  {n:2}. {each.name} {each.parameters}" for n, each in enumerate(self.story, start=1))
        actors = [*(actor for _, actor in self.actors), *([self.last] if self.last else [])]
        errors = "\n".join(f"{type(a.error).__name__}: {a.error}" for a in actors if a.error)
        return Divergence(f"{self.world.name}, after\n{story}\n  {what}\n{errors}")

    def _let_claims_go_on(self, step: Step) -> None:
        """An attempt that has claimed reads what it has claimed before anything else happens, as in the model.

        If it dies next, it may have died before that; and if it goes on, it reads by itself.
        """
        is_own = step.name == "kill" or step.name in OF_AN_ATTEMPT
        own = Counter(self.state.attempts) - Counter(step.state.attempts) if is_own else Counter()
        for attempt, actor in self.actors:
            if actor.place == Failpoint.AFTER_CLAIM and attempt not in own and actor.run_to(TASKS) != TASKS:
                raise self._diverged("an attempt ended right after its claim")

    # -- attempts ----------------------------------------------------------------------------------------------------

    def _drive(self, step: Step, loses: str | None = None) -> None:
        """Let the attempt that the step is of go on to where the model has it then, or to its end."""
        before, after = Counter(self.state.attempts), Counter(step.state.attempts)
        (was,) = (before - after) or (None,)
        (now,) = (after - before) or (None,)
        actor = self._refreshed(self._take_out(was), was) if was else self._start(step.parameters[0])
        stops = _NO_END if step.name == "end" else STOPS[now.doing] if now else ()
        place = actor.run_to(*stops, loses=loses)
        self.actors.append((now or was or Attempt("done", 0), actor))
        if (place is None) is not (now is None):
            raise self._diverged(f"the attempt {'ended' if place is None else f'reached {place}'}, the model has {now}")
        if actor.error and not isinstance(actor.error, OffsetLedgerError):
            raise actor.error
        if now is None:
            self.actors.pop()
            self.last = actor

    def _actor_of(self, attempt: Attempt) -> Actor:
        return next(actor for each, actor in self.actors if each == attempt)

    def _take_out(self, attempt: Attempt) -> Actor:
        actor = self._actor_of(attempt)
        self.actors.remove((attempt, actor))
        return actor

    def _start(self, number: int, doing: str = STAGING) -> Actor:
        """A process that takes the batch through its steps."""
        return Actor(lambda: self._work(number, doing), self.reached, self.state.file)

    def _refreshed(self, actor: Actor, was: Attempt) -> Actor:
        """A step reads the pipeline file when it begins, and the model when it ends: an edited file is another step."""
        batch = self.state.db.batch(was.batch)
        own = batch is not None and batch.epoch == was.epoch
        works = own and (was.doing, batch.state) in _WORKS  # where others were faster, the file is not read any more
        if not works or self.state.file == actor.file:
            return actor
        actor.kill()
        again = self._start(was.batch, was.doing)
        again.run_to(*STOPS[was.doing])
        return again

    def _work(self, number: int, doing: str) -> None:
        pipeline, batch_id = self._pipeline_of(number), self._id(number)
        if doing == STAGING and self._batch(number).kind is BatchKind.REDRIVE:
            stage_redrive(pipeline, batch_id, ME)
        elif doing == STAGING:
            stage(self._reader(), pipeline, batch_id, ME)
        if doing != COMMITTING and validate(pipeline, batch_id, ME)[0].state is BatchState.REJECTED:
            raise BatchRejected("the gate rejected it")
        commit(pipeline, batch_id, ME)

    def _batch(self, number: int) -> Batch:
        found = self.state.db.batch(number)
        assert found is not None
        return found

    def _id(self, number: int) -> int:
        return next(batch_id for batch_id, each in self.numbers.items() if each == number)

    def _pipeline(self, topic: int) -> Pipeline:
        return pipeline_of(self.world, self.state.file, len(self.state.topics), topic)

    def _pipeline_of(self, number: int) -> Pipeline:
        return self._pipeline(self._batch(number).topic)

    def _claim(self, step: Step, pick: Pick[Any]) -> None:
        self._drive(step)

    _take_up = _validate = _reject = _commit = _end = _send = _claim

    def _stage_slice(self, step: Step, pick: Pick[Any]) -> State | None:
        """A redrive reads quarantine in the session of its step, which the model does not know to be gone."""
        (was,) = Counter(self.state.attempts) - Counter(step.state.attempts)
        redrives = (batch := self.state.db.batch(was.batch)) and batch.kind is BatchKind.REDRIVE
        if not redrives or not self._actor_of(was).is_cut_off:
            self._drive(step)
            return None
        actor = self._take_out(was)
        actor.run_to()
        if not isinstance(actor.error, OffsetLedgerError):
            raise self._diverged(f"a redrive without a session has staged: {actor.error}")
        return self.state.with_attempt(was, None)

    def _resolve(self, step: Step, pick: Pick[Any]) -> None:
        (was,) = Counter(self.state.attempts) - Counter(step.state.attempts)
        actor = self._actor_of(was)
        self._drive(step)
        if (actor.error is None) is not (step.parameters[-1] == "committed"):
            raise self._diverged(f"the attempt took its commit for the opposite: {actor.error}")

    def _seal(self, step: Step, pick: Pick[Any]) -> State | None:
        """The session that seals is the one that claimed: the model's crash lets its attempt seal, and that is gone."""
        (was,) = Counter(self.state.attempts) - Counter(step.state.attempts)
        if not self._actor_of(was).is_cut_off:
            self._drive(step)
            return None
        actor = self._take_out(was)
        actor.run_to(SETTLE)
        if not isinstance(actor.error, OffsetLedgerError):
            raise self._diverged(f"an attempt without a session has sealed: {actor.error}")
        return self.state.with_attempt(was, None)

    def _lose_answer(self, step: Step, pick: Pick[Any]) -> None:
        took_place = step.parameters[-1] == "committed"
        self._drive(step, Failpoint.AFTER_COMMIT if took_place else Failpoint.AFTER_MERGE)

    def _kill(self, step: Step, pick: Pick[Any]) -> None:
        (was,) = Counter(self.state.attempts) - Counter(step.state.attempts)
        actor, batch = self._take_out(was), self.state.db.batch(was.batch)
        stops: tuple[str | None, ...] = (None,)
        if was.doing == STAGING and batch and len(was.done) < len(slices_of(self.rules, batch)):
            stops = (None, Failpoint.SLICE_COPIED)
        elif was.doing == COMMITTING:
            stops = (None, Failpoint.BEFORE_MERGE, Failpoint.AFTER_MERGE)
        if stop := pick(stops):
            actor.run_to(stop)
        self.reached[f"kill at {stop or was.doing}"] += 1
        actor.kill()

    # -- all of it at once -------------------------------------------------------------------------------------------

    def _load(self, step: Step, pick: Pick[Any]) -> None:
        actor = self._start(step.parameters[0])
        actor.run_to(LOCK)
        actor.kill()
        self._check_ended(actor)

    def _ingest(self, step: Step, pick: Pick[Any]) -> None:
        actor = self._start(step.parameters[0])
        actor.run_to()
        self._check_ended(actor)

    def _check_ended(self, actor: Actor) -> None:
        self.last = actor
        if actor.error and not isinstance(actor.error, OffsetLedgerError):
            raise actor.error

    def _run(self, step: Step, pick: Pick[Any]) -> None:
        pipeline = self._pipeline(step.parameters[0])
        planned = plan(pipeline, ME, self._limit(step))
        if planned.batch:
            actor = Actor(lambda: self._rest(pipeline, planned.batch.batch_id), self.reached, self.state.file)
            actor.run_to()
            self._check_ended(actor)

    def _rest(self, pipeline: Pipeline, batch_id: int) -> None:
        stage(self._reader(), pipeline, batch_id, ME)
        if validate(pipeline, batch_id, ME)[0].state is not BatchState.REJECTED:
            commit(pipeline, batch_id, ME)

    # -- plans -------------------------------------------------------------------------------------------------------

    def _look(self, step: Step, pick: Pick[Any]) -> None:
        (now,) = Counter(step.state.attempts) - Counter(self.state.attempts)
        pipeline, limit = self._pipeline(step.parameters[0]), pick((None, 1, 2))
        actor = Actor(lambda: plan(pipeline, ME, limit), self.reached, self.state.file)
        place = actor.run_to(ANSWERED)
        self.actors.append((now, actor))
        if place is None:
            raise self._diverged("the plan asked for nothing")

    def _plan(self, step: Step, pick: Pick[Any]) -> State | None:
        if self.state.attempts == step.state.attempts:
            plan(self._pipeline(step.parameters[0]), ME, self._limit(step))
            return None
        (was,) = Counter(self.state.attempts) - Counter(step.state.attempts)
        actor = self._actor_of(was)
        self._drive(step)
        # The model has no columns of an empty table, which was made wider than the file that this plan read.
        refused = isinstance(actor.error, TargetMismatch) and self.database().columns > was.memory[-1].columns
        return self.state.with_attempt(was, None) if refused else None

    def _plan_ahead(self, step: Step, pick: Pick[Any]) -> None:
        plan_ahead(self._pipeline(step.parameters[0]), ME, self._limit(step))

    def _limit(self, step: Step) -> int | None:
        return sum(r[2] - r[1] for r in step.parameters[1:] if isinstance(r, tuple)) or None

    def _replay(self, step: Step, pick: Pick[Any]) -> None:
        topic, partition, start, end = step.parameters
        asked = replace(ME, run_id=uuid.uuid4().hex)
        plan_replay(self._pipeline(topic), [OffsetRange(partition, start, end)], asked)

    def _redrive(self, step: Step, pick: Pick[Any]) -> None:
        since = datetime(2020, 1, 1, tzinfo=UTC) + timedelta(seconds=len(self.story))  # no choice of an earlier one
        plan_redrive(self._pipeline(step.parameters[0]), RedriveChoice(since=since), ME)

    # -- decisions ---------------------------------------------------------------------------------------------------

    def _approve(self, step: Step, pick: Pick[Any]) -> None:
        self._decide(step.parameters[0], BatchState.VALIDATED)

    def _abandon(self, step: Step, pick: Pick[Any]) -> None:
        self._decide(step.parameters[0], BatchState.ABANDONED)

    def _decide(self, number: int, after: BatchState) -> None:
        with connect(self.postgres) as session:
            decide(session, self._id(number), after, ME, WHY)

    def _approve_tombstones(self, step: Step, pick: Pick[Any]) -> None:
        approve_tombstones(self._pipeline_of(step.parameters[0]), ME, WHY)

    def _skip(self, step: Step, pick: Pick[Any]) -> None:
        skip_lost(self._pipeline(step.parameters[0]), ME, WHY)

    def _accept_topic(self, step: Step, pick: Pick[Any]) -> None:
        accept_topic(self._pipeline(step.parameters[0]), ME, WHY)

    def _dismiss(self, step: Step, pick: Pick[Any]) -> None:
        topic, partition, offset = step.parameters
        undo = step.name == "undo dismissal"
        dismiss(self._pipeline(topic), Selection(partition, (offset,)), ME, WHY, undo)

    _undo_dismissal = _dismiss

    def _remerge(self, step: Step, pick: Pick[Any]) -> None:
        restate_rows(self._pipeline(step.parameters[0]), ME, WHY)

    def _replay_part(self, step: Step, pick: Pick[Any]) -> None:
        pipeline = self._pipeline(step.parameters[0])
        with connect(self.postgres) as session, transaction(session) as cursor:
            parts = read_unfinished(cursor, pipeline.name, self._cluster().snapshot(pipeline.source.topic))
        (part,) = parts
        plan_replay(pipeline, part.ranges, ME, BatchKind.REPLAY, WHY, part.request)

    def _cluster(self, answered: Callable[[], None] = lambda: None) -> Cluster:
        return Cluster(self.world, lambda: self.state, lambda: len(self.letters.positions()), answered)

    def _prune(self, step: Step, pick: Pick[Any]) -> None:
        prune_beyond(self._pipeline(step.parameters[0]), same_age(timedelta(0)), 1, ME)

    # -- the table ---------------------------------------------------------------------------------------------------

    def _fill(self, step: Step, pick: Pick[Any]) -> None:
        topic, partition, start, end = step.parameters
        ranges, asked = [OffsetRange(partition, start, end)], replace(ME, run_id=uuid.uuid4().hex)
        request = Request(RunAction.RANGES, ranges=tuple(ranges), fill=True).key
        plan_replay(self._pipeline(topic), ranges, asked, request=request)

    def _delete_by_hand(self, step: Step, pick: Pick[Any]) -> None:
        (row,) = self.query(f"DELETE FROM public.{TABLE} WHERE k = %s RETURNING k", [key_text(step.parameters[0])])
        assert row

    def _lose_comments(self, step: Step, pick: Pick[Any]) -> None:
        self.query(f"COMMENT ON TABLE {ROWS_SCHEMA}.{FILE} IS NULL")

    def _fail_to_classify(self, step: Step, pick: Pick[Any]) -> None:
        """The statement that classifies the staged rows sorts more than the server has room for."""
        with mock.patch.object(classes, "named_sql", _without_room):
            self._drive(step)
        if not (self.last and isinstance(self.last.error, ConfigurationError)):
            raise self._diverged("the commit takes that for something else than a limit of the server")

    def _prune_deletes(self, step: Step, pick: Pick[Any]) -> None:
        topic, *gone = step.parameters
        ages = replace(same_age(timedelta(days=36500)), deletes=timedelta(seconds=1))
        with suppress(*(() if gone else (ConfigurationError, StateConflict))):
            prune_beyond(self._pipeline(topic), ages, 1_000_000, ME)

    # -- dead letters ------------------------------------------------------------------------------------------------

    def _read_back(self, step: Step, pick: Pick[Any]) -> None:
        now = next((a for a in step.state.attempts if a.doing == SENDING), None)
        pipeline = self._pipeline(0)
        actor = Actor(lambda: deliver(pipeline), self.reached, self.state.file)
        if actor.run_to(DELIVERS) is None:
            raise self._diverged(f"nothing is delivered: {actor.error}")
        place = actor.run_to(DELIVERS, *(STOPS[SENDING] if now else ()))
        for attempt in self.state.attempts:
            if attempt.doing == SENDING:
                self._end_fenced(self._take_out(attempt))
        if now is None:  # all that waited had been delivered
            self._end_delivery(actor)
        elif place in STOPS[SENDING]:
            self.actors.append((now, actor))
        else:
            raise self._diverged(f"the delivery ended with {actor.error}, the model has {now}")

    def _end_fenced(self, actor: Actor) -> None:
        actor.run_to()
        if not isinstance(actor.error, ProducerFenced):
            raise self._diverged(f"a delivery that was overtaken ended with {actor.error}")

    def _end_delivery(self, actor: Actor) -> None:
        """It looks whether more has come; that is another one for the model."""
        if actor.place == DELIVERS:
            actor.kill()
        self._check_ended(actor)

    def _mark(self, step: Step, pick: Pick[Any]) -> State | None:
        (was,) = Counter(self.state.attempts) - Counter(step.state.attempts)
        actor = self._take_out(was)
        actor.run_to(DELIVERS)
        self._end_delivery(actor)
        if not actor.is_cut_off:
            return None
        if not isinstance(actor.error, OffsetLedgerError):
            raise self._diverged(f"a delivery without a session has marked its letters: {actor.error}")
        return self.state.with_attempt(was, None)

    def _check_letters(self) -> None:
        """The topic has the letters of the model, and the outbox says where each one is that was delivered."""
        sent = self.letters.positions()
        if tuple(sent.values()) != self.state.letters:
            raise self._diverged(f"the dead letter topic has {sent}, the model {self.state.letters}")
        for row in self.query(
            'SELECT topic_id, partition, "offset", at_offset FROM offset_ledger.dead_letter'
            " JOIN offset_ledger.quarantine USING (quarantine_id) WHERE delivered_at IS NOT NULL"
        ):
            if sent.get(row["at_offset"]) != (0, log_of(row["topic_id"]), row["partition"], row["offset"]):
                raise self._diverged(f"the outbox has {row}, the dead letter topic {sent}")

    # -- what happens elsewhere --------------------------------------------------------------------------------------

    def _nothing(self, step: Step, pick: Pick[Any]) -> None:
        """The log, or the pipeline file, is another value from now on."""

    _produce = _commit_transaction = _abort_transaction = _compact = _expire = _truncate = _recreate = _nothing
    _add_partition = _add_topic = _edit = _regroup = _nothing

    def _tick(self, step: Step, pick: Pick[Any]) -> None:
        self._age(1)

    def _age(self, days: int) -> None:
        """Days pass: everything is older by so many."""
        for table, column in (("topic_look", "seen_at"), ("batch", "planned_at"), ("beginning", "recorded_at")):
            names = [sql.Identifier(name) for name in (table, column, column)]
            statement = sql.SQL("UPDATE offset_ledger.{} SET {} = {} - %s * interval '1 day'").format(*names)
            self._without_triggers(statement, [days])

    def _without_triggers(self, statement: Any, arguments: Any = None) -> None:
        self.query("SET session_replication_role = replica")
        self.query(statement, arguments)
        self.query("SET session_replication_role = origin")

    def _crash(self, step: Step, pick: Pick[Any]) -> None:
        """What a crash of the server leaves: no session, empty UNLOGGED tables, no slice that was not durable."""
        self._end_sessions(step)
        for row in self.query("SELECT tablename FROM pg_tables WHERE schemaname = %s", [SCHEMA]):
            self.query(sql.SQL("TRUNCATE {}").format(sql.Identifier(SCHEMA, row["tablename"])))
        for batch in step.state.db.batches:
            lost = {each.number for each in self._batch(batch.number).manifest} - {s.number for s in batch.manifest}
            where = "batch_id = %s AND epoch = %s AND slice_no = ANY(%s)"
            self._without_triggers(
                f"DELETE FROM offset_ledger.slice WHERE {where}", [self._id(batch.number), batch.epoch, list(lost)]
            )

    def _replicate(self, step: Step, pick: Pick[Any]) -> None:
        self.earlier.keep()
        self.kept = self.state.time, dict(self.numbers)

    def _failover(self, step: Step, pick: Pick[Any]) -> None:
        """The standby has every commit up to a moment, no UNLOGGED row, and no session of the server before it."""
        self._end_sessions(step, failover.orphaned)
        self.earlier.bring_back()
        time, numbers = self.kept
        self.numbers.clear()
        self.numbers.update(numbers)
        if self.state.time > time:
            self._age(self.state.time - time)

    _restore = _failover

    def _end_sessions(self, step: Step, left_as: Callable[[Attempt], Attempt] = lambda a: a) -> None:
        """End all sessions, and the attempts that the model ends with them; others are ``left_as`` it has them."""
        others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        self.query(f"SELECT pg_terminate_backend(pid) {others}")  # with a timeout it looks every 100 ms
        while self.query(f"SELECT {others}"):
            time.sleep(0.001)
        left, actors = list(step.state.attempts), self.actors
        self.actors = []
        for attempt, actor in actors:
            actor.is_cut_off = True
            if (after := left_as(attempt)) in left:
                left.remove(after)
                self.actors.append((after, actor))
            else:
                actor.kill()
