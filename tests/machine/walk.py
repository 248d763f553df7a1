"""Walks that go where little has been taken yet."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

from offset_ledger.connections import Connection
from tests.machine.bench import Bench
from tests.machine.worlds import MACHINE_WORLDS
from tests.model.rules import Step, World
from tests.model.stories import OF_AN_ATTEMPT, OTHERS

NOT_TAKEN = {"read back", "send", "mark", "move cursor", "commit again", "replicate", "failover", "restore"}
"""Dead letters need a broker, two are of defects, and a database that goes back is the model's alone."""
NAMES = tuple(sorted({*OF_AN_ATTEMPT, *OTHERS} - NOT_TAKEN))


class Walker:
    """Takes steps on one database, walk after walk, and counts them."""

    def __init__(self, postgres: Connection, seed: int) -> None:
        self.postgres = postgres
        self.random = random.Random(seed)
        self.taken: Counter[str] = Counter()
        self.reached: Counter[str] = Counter()
        self.walks = 0
        self._seen: dict[str, Counter[str]] = defaultdict(Counter)

    def walk_until(self, times: int, names: tuple[str, ...] = NAMES) -> None:
        """Walk until each of these was taken so often.

        Raises:
            Divergence: code and model went different ways.
        """
        while min(self.taken[name] for name in names) < times:
            rarest = min(names, key=lambda name: self.taken[name])
            self.walk(self._world(rarest), 60)

    def _world(self, rarest: str) -> World:
        """One in which the rarest action was possible, or any."""
        if (seen := self._seen[rarest]) and self.random.random() < 0.7:
            (name,) = self.random.choices([*seen], [*seen.values()])
            return next(world for world in MACHINE_WORLDS if world.name == name)
        return self.random.choice(MACHINE_WORLDS)

    def walk(self, world: World, steps: int) -> None:
        """Go so many steps, or to where nothing is left to do."""
        self.walks += 1
        bench = Bench(world, self.random.choice(list(world.initial())), self.postgres)
        with bench.running():
            for _ in range(steps):
                possible: dict[str, list[Step]] = {}
                for step in bench.rules.actions(bench.state):
                    possible.setdefault(step.name, []).append(step)
                if not possible:
                    break
                name = self._choose([*possible])
                bench.take(self.random.choice(possible[name]), self.random.choice)
                self.taken[name] += 1
                self._seen[name][world.name] += 1
        self.reached += bench.reached

    def _choose(self, names: list[str]) -> str:
        """The rarest, a step of an attempt, so that batches come to their end, or any."""
        rarest = min(names, key=lambda name: self.taken[name])
        of_an_attempt = [name for name in names if name in OF_AN_ATTEMPT and name != "end"]
        among = self.random.choice(([rarest], of_an_attempt or names, names))
        return self.random.choice(among)
