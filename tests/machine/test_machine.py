"""The machine: any steps of the model's worlds, taken by the real code on a real Postgres, give the model's ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from offset_ledger.connections import Connection
from offset_ledger.local.stack import Stack
from tests.fixtures.servers import new_database
from tests.machine.bench import Bench
from tests.machine.walk import NAMES
from tests.machine.worlds import MACHINE_WORLDS
from tests.model.rules import Step, World


class Machine(RuleBasedStateMachine):
    """Begins with a world and an empty ledger; each rule is an action of the model."""

    database: ClassVar[Connection]
    worlds: ClassVar[tuple[World, ...]] = MACHINE_WORLDS
    taken: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.opened = ExitStack()
        self.possible: dict[str, list[Step]] = {}

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        """In one of the worlds."""
        self.opened.close()
        world = self.worlds[data.draw(st.integers(0, len(self.worlds) - 1))]
        beginnings = list(world.initial())
        first = beginnings[data.draw(st.integers(0, len(beginnings) - 1))]
        bench = Bench(world, first, self.database)
        self.bench = self.opened.enter_context(bench.running())
        self._look()

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
        self._look()

    def _look(self) -> None:
        self.possible = {}
        for step in self.bench.rules.actions(self.bench.state):
            self.possible.setdefault(step.name, []).append(step)

    def teardown(self) -> None:
        """Let the attempts die and drop the database."""
        self.opened.close()


def _rule_of(name: str) -> Any:
    def take(self: Machine, data: st.DataObject) -> None:
        self.take(name, data)

    take.__name__ = _identifier(name)
    return precondition(lambda self: name in self.possible)(rule(data=st.data())(take))


def _identifier(name: str) -> str:
    return "".join(c if c.isalpha() else "_" for c in name)


for name in NAMES:
    setattr(Machine, _identifier(name), _rule_of(name))

SHORT = settings(
    max_examples=60,
    stateful_step_count=40,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture
def database(stack: Stack, template_database: str) -> Iterator[Connection]:
    """By the superuser's socket: hundreds of sessions without a password."""
    with new_database(stack, template_database) as made:
        yield replace(stack.postgres.superuser(str(made.schema)), conn_id="postgres_default")


@pytest.mark.timeout(600)
def test_the_code_does_what_the_model_does(database: Connection) -> None:
    Machine.database = database
    Machine.taken.clear()
    run_state_machine_as_test(Machine, settings=SHORT)
    assert [name for name in NAMES if not Machine.taken[name]] == []
