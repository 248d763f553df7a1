"""Walk all states of a world, breadth-first, and say what is wrong by the shortest story."""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.model.invariants import allowed, broken, every_record_has_an_end
from tests.model.rules import Defect, Rules, Step, World
from tests.model.state import State

PROGRESS = "every_record_can_reach_an_end"


@dataclass
class Walk:
    """What a walk has met. ``story`` leads to the first violation of ``violated``, from a state of the beginning."""

    world: World
    defect: Defect | None = None
    states: int = 0
    transitions: int = 0
    depth: int = 0
    seconds: float = 0.0
    taken: Counter[str] = field(default_factory=Counter)
    violated: str | None = None
    first: State | None = None
    story: list[Step] = field(default_factory=list)

    @property
    def never_taken(self) -> list[str]:
        """The actions of the world that were not possible in any state."""
        return [action.__name__ for action in self.world.actions if not self.taken[action.__name__]]


def explore(world: World, defect: Defect | None = None) -> Walk:
    """Walk the world up to its first violation, or to its end."""
    gc.disable()  # nothing here is cyclic, and there are millions of tuples to look at
    try:
        return _Explorer(Walk(world, defect)).run()
    finally:
        gc.enable()


class _Explorer:
    def __init__(self, walk: Walk) -> None:
        self.walk = walk
        self.rules = Rules(walk.world, walk.defect)
        self.numbers: dict[State, int] = {}
        self.states: list[State] = []
        self.came_from: list[int] = []
        self.depths: list[int] = []
        self.before: list[list[int]] = []  # of each state those that lead to it
        self.sound: set[object] = set()  # what was looked at already

    def run(self) -> Walk:
        """Walk."""
        began = time.process_time()
        for state in self.walk.world.initial():
            self._enter(state, -1)
        at = 0
        while at < len(self.states) and not self.walk.violated:
            self._leave(at)
            at += 1
        if not self.walk.violated:
            self._look_for_a_wedge()
        self.walk.states = len(self.states)
        self.walk.depth = max(self.depths)
        self.walk.seconds = time.process_time() - began
        return self.walk

    def _leave(self, at: int) -> None:
        before, walk = self.states[at], self.walk
        for name, step in ((each.__name__, step) for each in walk.world.actions for step in each(self.rules, before)):
            walk.transitions += 1
            walk.taken[name] += 1
            to = self._enter(step.state, at)
            self.before[to].append(at)
            wrong = before.db is not step.state.db and allowed(walk.world, before, step.state, step.name)
            if wrong and not walk.violated:
                walk.violated = wrong[0]
                self._tell([*self._path(at), (at, step)])
            if walk.violated:
                return

    def _enter(self, state: State, origin: int) -> int:
        number = self.numbers.get(state)
        if number is None:
            number = self.numbers[state] = len(self.states)
            self.states.append(state)
            self.came_from.append(origin)
            self.before.append([])
            self.depths.append(self.depths[origin] + 1 if origin >= 0 else 0)
            looked_at = state.topics, state.db, state.letters
            if looked_at not in self.sound:
                self.sound.add(looked_at)
                if wrong := broken(self.walk.world, state):
                    self._violated(wrong[0], number)
        return number

    def _look_for_a_wedge(self) -> None:
        """From every state some way leads to one in which every record has its end."""
        ends = [number for number, state in enumerate(self.states) if every_record_has_an_end(state)]
        reached = bytearray(len(self.states))
        for number in ends:
            reached[number] = 1
        while ends:
            for number in self.before[ends.pop()]:
                if not reached[number]:
                    reached[number] = 1
                    ends.append(number)
        wedged = next((number for number, is_reached in enumerate(reached) if not is_reached), None)
        if wedged is not None:
            self._violated(PROGRESS, wedged)

    def _violated(self, name: str, number: int) -> None:
        if not self.walk.violated:
            self.walk.violated = name
            self._tell(list(self._path(number)))

    def _path(self, number: int) -> Iterator[tuple[int, Step | None]]:
        """The states on the shortest way, each with the step that leads there."""
        numbers = [number]
        while self.came_from[numbers[-1]] >= 0:
            numbers.append(self.came_from[numbers[-1]])
        yield numbers[-1], None
        for after, before in zip(numbers[-2::-1], numbers[:0:-1], strict=True):
            steps = self.rules.actions(self.states[before])
            yield before, next(step for step in steps if step.state == self.states[after])

    def _tell(self, path: list[tuple[int, Step | None]]) -> None:
        self.walk.first = self.states[path[0][0]]
        self.walk.story = [step for _, step in path if step]
