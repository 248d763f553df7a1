"""Walks that go where little has been taken yet."""

from __future__ import annotations

import random
from collections import Counter, defaultdict, deque
from collections.abc import Iterator

from offset_ledger.model.states import State as BatchState
from offset_ledger.outside.connections import Connection
from tests.machine.bench import Bench
from tests.machine.worlds import ALL_BESIDE, ALL_UNIQUE, EVERYTHING, MACHINE_WORLDS, OUTBOX, TOMBSTONES
from tests.model.beside import groups_of
from tests.model.rules import Rules, Step, World
from tests.model.state import Database, State
from tests.model.stories import OF_AN_ATTEMPT, OTHERS

OF_DEFECTS = {"move cursor", "commit again"}
NAMES = tuple(sorted({*OF_AN_ATTEMPT, *OTHERS} - OF_DEFECTS))
BESIDE, FIRST_BESIDE, GROUPED, APPENDED, CONFLICT = (
    "commit beside", "commit beside with skip_existing", "commit with groups", "commit that appends", "conflict"
)  # fmt: skip
EVENTS = (BESIDE, FIRST_BESIDE, GROUPED, APPENDED, CONFLICT)
"""What a step may do besides what its name says, which is counted too."""
COUNTED = (*NAMES, *EVENTS)

Route = tuple[World, State, list[Step]]
_ROUTES = 4  # for each name
_BEGINNINGS = 3
_LARGE_WORLDS = (OUTBOX, EVERYTHING, ALL_BESIDE, ALL_UNIQUE)
_SEARCHED_WORLDS = [world for world in MACHINE_WORLDS if world not in _LARGE_WORLDS]


def _worlds_of(name: str) -> list[World]:
    """Those that are searched for a step of that name; all of them, if it is named after what comes of an action."""
    if name == "seal, but tombstones may be gone":
        return [TOMBSTONES]
    if name in EVENTS:
        return [world for world in _SEARCHED_WORLDS if name in _may_show(world)]
    acting = [world for world in _SEARCHED_WORLDS if name in {f.__name__.replace("_", " ") for f in world.actions}]
    return acting or [*_SEARCHED_WORLDS]


def _may_show(world: World) -> Iterator[str]:
    if world.table.beside:
        yield FIRST_BESIDE if world.skip_existing else BESIDE
    if groups_of(world.file.shape):
        yield GROUPED
    if world.append:
        yield APPENDED
    if world.table.unique:
        yield CONFLICT


def shown(world: World, before: State, after: State) -> set[str]:
    """The events of a step: a commit into such a table, a record that the gate refuses for its value."""
    committed = _committed(after.db) > _committed(before.db)
    refused = sum(n for b in after.db.batches for _, n in b.moved) > sum(
        n for b in before.db.batches for _, n in b.moved
    )
    return {event for event in _may_show(world) if (refused if event == CONFLICT else committed)}


def _committed(db: Database) -> int:
    return sum(b.state is BatchState.COMMITTED for b in db.batches)


class Walker:
    """Takes steps on one database, walk after walk, and counts them."""

    def __init__(self, postgres: Connection, seed: int) -> None:
        self.postgres = postgres
        self.random = random.Random(seed)
        self.taken: Counter[str] = Counter()
        self.reached: Counter[str] = Counter()
        self.walks = 0
        self._routes: dict[str, list[Route]] = defaultdict(list)
        self._worlds = {name: _worlds_of(name) for name in COUNTED}
        self._searched = dict.fromkeys(COUNTED, 1000)  # states

    def walk_until(self, times: int, names: tuple[str, ...] = COUNTED) -> None:
        """Walk until each of these was taken so often.

        Raises:
            Divergence: code and model went different ways.
        """
        while min(self.taken[name] for name in names) < times:
            self.walk(min(names, key=lambda name: self.taken[name]))

    def walk(self, wanted: str, more: int = 8) -> None:
        """Go to where a step of that name is possible, take it, and some more; or far into a large world."""
        world, first, route = self._route(wanted)
        self.walks += 1
        bench = Bench(world, first, self.postgres)
        with bench.running():
            for step in route:
                self._take(bench, step)
                if bench.state != step.state:  # a plan has chosen other shares
                    break
            self.wander(bench, more if route else 5 * more)
        self.reached += bench.reached

    def wander(self, bench: Bench, steps: int) -> None:
        """Take so many steps, or until nothing is left to do."""
        for _ in range(steps):
            possible: dict[str, list[Step]] = {}
            for step in bench.rules.actions(bench.state):
                possible.setdefault(step.name, []).append(step)
            if not possible:
                break
            self._take(bench, self.random.choice(possible[self._choose([*possible])]))

    def _take(self, bench: Bench, step: Step) -> None:
        before = bench.state
        bench.take(step, self.random.choice)
        self.taken.update((step.name, *shown(bench.world, before, bench.state)))

    def _route(self, wanted: str) -> Route:
        """A way of the model to such a step: one of some that were looked for before, or another one."""
        if self.walks % 6 == 0:
            world = self.random.choice(_LARGE_WORLDS)
            return world, next(world.initial()), []
        routes, worlds = self._routes[wanted], self._worlds[wanted]
        enough = min(_ROUTES, self.taken[wanted] + 1)  # a search takes longer than a walk
        while len(routes) < enough and (worlds or not routes):
            if not worlds:
                self._searched[wanted] *= 4
                worlds += _worlds_of(wanted)
            world = self.random.choice(worlds)
            if (route := self._search(world, wanted)) is not None:
                routes.append(route)
            else:
                worlds.remove(world)
        return self.random.choice(routes)

    def _search(self, world: World, wanted: str) -> Route | None:
        """Breadth-first, the possible steps in any order, from some beginnings at once: not each has a way there.
        The first way to any other step is kept, too.
        """
        rules, beginnings = Rules(world), [*world.initial()]
        beginnings = self.random.sample(beginnings, min(_BEGINNINGS, len(beginnings)))
        ways: dict[State, tuple[State, list[Step]]] = {first: (first, []) for first in beginnings}
        queue = deque(beginnings)
        while queue and len(ways) < self._searched[wanted]:
            state = queue.popleft()
            steps = rules.actions(state)
            self.random.shuffle(steps)
            first, before = ways[state]
            for step in steps:
                way = [*before, step]
                if step.name == wanted or wanted in shown(world, state, step.state):
                    return world, first, way
                if not self._routes[step.name]:
                    self._routes[step.name].append((world, first, way))
                if step.state not in ways:
                    ways[step.state] = first, way
                    queue.append(step.state)
        return None

    def _choose(self, names: list[str]) -> str:
        """The rarest, a step of an attempt, so that batches come to their end, or any."""
        rarest = min(names, key=lambda name: self.taken[name])
        of_an_attempt = [name for name in names if name in OF_AN_ATTEMPT and name != "end"]
        among = self.random.choice(([rarest], of_an_attempt or names, names))
        return self.random.choice(among)
