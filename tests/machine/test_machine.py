"""The machine: any steps of the model's worlds, taken by the real code on a real Postgres, give the model's ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from offset_ledger.local.stack import Stack
from tests.fixtures.servers import new_database
from tests.machine.bench import Bench
from tests.machine.worlds import MACHINE_WORLDS
from tests.model.rules import Step, World
from tests.model.stories import OF_AN_ATTEMPT, OTHERS

NOT_TAKEN = {"read back", "send", "mark", "move cursor", "commit again"}
"""Dead letters need a broker, and the last two are of defects."""
NAMES = sorted({*OF_AN_ATTEMPT, *OTHERS} - NOT_TAKEN)


class Machine(RuleBasedStateMachine):
    """Begins with a world and an empty ledger; each rule is an action of the model."""

    stack: ClassVar[Stack]
    worlds: ClassVar[tuple[World, ...]] = MACHINE_WORLDS
    taken: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.opened = ExitStack()
        self.possible: dict[str, list[Step]] = {}

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        """In one of the worlds."""
        world = data.draw(st.sampled_from(self.worlds), "world")
        first = data.draw(st.sampled_from(list(world.initial())), "beginning")
        postgres = self.opened.enter_context(new_database(self.stack))
        bench = Bench(world, first, postgres, self.stack.postgres.superuser(str(postgres.schema)))
        self.bench = self.opened.enter_context(bench.running())
        self._look()

    def take(self, name: str, data: st.DataObject) -> None:
        """One of the steps of that name."""
        step = data.draw(st.sampled_from(self.possible[name]), "step")
        self.bench.take(step, lambda choices: data.draw(st.sampled_from(choices)))
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

    return precondition(lambda self: name in self.possible)(rule(data=st.data())(take))


for name in NAMES:
    setattr(Machine, "".join(c if c.isalpha() else "_" for c in name), _rule_of(name))

SHORT = settings(
    max_examples=60,
    stateful_step_count=40,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(autouse=True)
def machine_of(stack: Stack, template_database: str) -> Iterator[None]:
    Machine.stack = stack
    Machine.taken.clear()
    yield


@pytest.mark.timeout(600)
def test_the_code_does_what_the_model_does() -> None:
    run_state_machine_as_test(Machine, settings=SHORT)
    assert [name for name in NAMES if not Machine.taken[name]] == []
