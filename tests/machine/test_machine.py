"""The machine: any steps of the model's worlds, taken by the real code on a real Postgres, give the model's ledger."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from offset_ledger.errors import LogTruncated
from offset_ledger.outside.connections import Connection
from offset_ledger.steps.plan.step import plan_ahead
from offset_ledger_kit.sandbox.stack import Stack
from tests.examples import examples
from tests.fixtures.servers import new_database
from tests.machine.bench import ME, Bench
from tests.machine.broker import BROKER, BrokerBench
from tests.machine.pipelines import pipeline_of
from tests.machine.walk import COUNTED, NAMES, Walker
from tests.machine.worlds import EVERYTHING, MACHINE_WORLDS
from tests.model.rules import Step, World
from tests.model.worlds import AHEAD, FAILOVER, FENCING, LAST_COPY, LETTERS, QUARANTINE

pytestmark = pytest.mark.minutes(2)


class Machine(RuleBasedStateMachine):
    """Begins with a world and an empty ledger; each rule is an action of the model."""

    database: ClassVar[Connection]
    taken: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.opened = ExitStack()
        self.possible: dict[str, list[Step]] = {}

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        """In one of the worlds."""
        self.opened.close()
        world = MACHINE_WORLDS[data.draw(st.integers(0, len(MACHINE_WORLDS) - 1))]
        beginnings = list(world.initial())
        first = beginnings[data.draw(st.integers(0, len(beginnings) - 1))]
        bench = Bench(world, first, self.database)
        self.bench = self.opened.enter_context(bench.running())
        self._list_steps()

    @precondition(lambda self: not self.possible)
    @rule(data=st.data())
    def begin_again(self, data: st.DataObject) -> None:
        """Nothing is left to do in this world."""
        self.begin(data)

    def take(self, name: str, data: st.DataObject) -> None:
        """One of the steps of that name."""
        steps = self.possible[name]
        step = steps[data.draw(st.integers(0, len(steps) - 1))]
        self.bench.take(step, lambda choices: choices[data.draw(st.integers(0, len(choices) - 1))])
        self.taken[name] += 1
        self._list_steps()

    def _list_steps(self) -> None:
        self.possible = {}
        for step in self.bench.rules.actions(self.bench.state):
            self.possible.setdefault(step.name, []).append(step)

    def teardown(self) -> None:
        """Let the attempts die."""
        self.opened.close()


def _rule_of(name: str) -> Any:
    def take(self: Machine, data: st.DataObject) -> None:
        self.take(name, data)

    take.__name__ = _identifier(name)
    return precondition(lambda self: name in self.possible)(rule(data=st.data())(take))


def _identifier(name: str) -> str:
    return "".join(c if c.isalpha() else "_" for c in name)


for each in NAMES:
    setattr(Machine, _identifier(each), _rule_of(each))

SHORT = examples(12, stateful_step_count=30, derandomize=True, database=None, suppress_health_check=list(HealthCheck))


@pytest.fixture
def database(stack: Stack, template_database: str) -> Iterator[Connection]:
    """By the superuser's socket: hundreds of sessions without a password. Its faults are wanted, and not logged."""
    logging.disable(logging.CRITICAL)
    with new_database(stack, template_database) as made:
        yield replace(stack.postgres.superuser(str(made.schema)), conn_id="postgres_default")
    logging.disable(logging.NOTSET)


def test_the_code_does_what_the_model_does(database: Connection) -> None:
    Machine.database = database
    Machine.taken.clear()
    run_state_machine_as_test(Machine, settings=SHORT)
    assert Machine.taken.total() > 9 * SHORT.max_examples


STORIES = {
    "tasks outlive a crash": (FENCING, "produce", "plan", "claim", "crash", "stage slice", "seal"),
    "tasks outlive a failover": (FAILOVER, "produce", "plan", "claim", "replicate", "failover", "stage slice", "end"),
    "tasks of a lost batch meet another one": (
        FAILOVER, "produce", "replicate", "plan", "claim", "failover", "plan", "claim", "end", "stage slice", "seal",
    ),
    "an outbox that was lost": (LETTERS, "run", "replicate", "read back", "send", "mark", "failover", "read back"),
    "records that were lost": (
        LETTERS, "replicate", "run", "read back", "send", "mark", "failover", "run", "read back",
    ),
    "a delivery that lost its session": (LETTERS, "run", "replicate", "read back", "restore", "send", "read back"),
    "a commit whose session a claim has ended": (
        FENCING, "produce", "plan", "claim", "stage slice", "seal", "validate", ("edit", ("decodes", "all")), "claim",
        "end",
    ),
    "a plan with a file that is older than the table": (
        EVERYTHING, "add topic", ("look", (1,)), ("edit", ("columns", 1)), ("look", (0,)), ("plan", (0, "nothing new")),
        ("plan", (1, "nothing new")),
    ),
    "a plan with an older file that finds a batch planned": (
        EVERYTHING, "produce", ("look", (0,)), ("edit", ("order", "timestamp")), ("look", (0,)), "plan", "end",
    ),
    "records that a redrive had tried are pruned": (
        QUARANTINE, "plan", "load", "approve", "commit", "redrive", "load", "commit", "dismiss", "prune",
    ),
    "a remerge after a topic was truncated to its start": (
        EVERYTHING, "produce", ("look", (0,)), "plan", "claim", "stage slice", "seal", "validate", "commit", "truncate",
        "accept topic", ("edit", ("order", "timestamp")), "remerge",
    ),
    "an approval does not count for another file": (
        LAST_COPY, "plan", "claim", "stage slice", "seal", "reject", "approve", "crash", "claim", "stage slice", "seal",
        "recreate", ("edit", ("decodes", "all")), "reject",
    ),
    "an approved batch is committed although the file has changed": (
        QUARANTINE, ("plan", (0, (0, 0, 2))), "load", "approve", ("edit", ("decodes", "all")), "commit",
    ),
    "another attempt validates, and then the file changes": (
        EVERYTHING, "produce", ("look", (0,)), "plan", "claim", "stage slice", "seal", "take up", "validate",
        ("edit", ("order", "timestamp")), "take up", "end",
    ),
    "a batch is staged ahead, and is the open one when the one before it is committed": (
        AHEAD, ("plan", (0, (0, 0, 1))), "claim", "stage slice", "seal", "plan ahead", ("claim", (2, 1)), "reject",
        "stage slice", "seal", "approve", "take up", "commit", "take up", "validate", "commit",
    ),
    "a batch ahead goes with the one before it": (
        AHEAD, ("plan", (0, (0, 0, 1))), "claim", "stage slice", "seal", "plan ahead", ("claim", (2, 1)),
        ("abandon", (1,)), ("end", (2, 1, "fenced")),
    ),
    "a batch ahead goes when the one before it is claimed again": (
        AHEAD, ("plan", (0, (0, 0, 1))), "claim", "stage slice", "seal", "plan ahead", "crash", "claim",
    ),
    "one delivery takes over from another": (LETTERS, "run", "read back", "read back", "send", "mark"),
}  # fmt: skip


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_a_story_of_the_model_is_one_of_the_code(database: Connection, story: tuple[World, *tuple[Any, ...]]) -> None:
    world, *names = story
    with Bench(world, next(world.initial()), database).running() as bench:
        bench.follow(*names)


def test_nothing_is_planned_ahead_where_the_log_was_cut_off_below_the_end_of_the_open_batch(
    database: Connection,
) -> None:
    """Other records may have its offsets by then, and its commit would leave a cursor that the new log agrees with."""
    with Bench(EVERYTHING, next(EVERYTHING.initial()), database).running() as bench:
        bench.follow("produce", ("look", (0,)), "plan", "claim", "stage slice", "seal", ("truncate", (0, 0, 0)))
        bench.follow(("produce", (0, 0, "bad")), ("produce", (0, 0, "row")))
        assert "plan ahead" not in {step.name for step in bench.rules.actions(bench.state)}
        with pytest.raises(LogTruncated, match="other records may have taken their places"):
            plan_ahead(pipeline_of(bench.world, bench.state.file, 2, 0), ME, 1)


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_walks_take_every_action(database: Connection) -> None:
    walker = Walker(database, 1)
    walker.walk_until(1)
    assert [name for name in COUNTED if not walker.taken[name]] == []


@pytest.mark.full
def test_the_code_does_what_the_model_does_with_a_real_broker(database: Connection, stack: Stack) -> None:
    cluster = Connection("kafka_default", "kafka", extra={"bootstrap.servers": stack.kafka.bootstrap})
    walker = Walker(database, 1)
    for world, steps in ((BROKER, 60), (BROKER, 60), (LETTERS, 30)):
        first = next(world.initial())
        with BrokerBench(world, first, database, cluster).running() as bench:
            walker.wander(bench, steps)
    assert {"produce", "plan", "load", "commit", "read back", "send", "mark"} <= {*walker.taken}
