"""Columns that a run adds to its pipeline file and widens, so that commits change the table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

PREFIX = "added_"
BITS = {"smallint": 15, "integer": 31, "bigint": 63, "numeric": 90}
TYPES = list(BITS)
MOST = 6


@dataclass
class AddedColumns:
    """The types of the columns, in the order in which they were added."""

    types: list[str] = field(default_factory=list)

    def change(self, random: Random) -> bool:
        """Widen a column or add one; False once there are six of the widest type."""
        narrow = [number for number, name in enumerate(self.types) if name != TYPES[-1]]
        if len(self.types) < MOST and (not narrow or random.random() < 0.5):
            self.types.append(TYPES[0])
        elif narrow:
            number = random.choice(narrow)
            self.types[number] = random.choice(TYPES[TYPES.index(self.types[number]) + 1 :])
        return bool(narrow) or len(self.types) < MOST

    def draw(self, random: Random) -> tuple[int | None, ...]:
        """A value for each, that only its type of now can hold, or NULL."""
        return tuple(random.choice((None, 0, 2 ** BITS[name] - 1, -(2 ** BITS[name]) + 1)) for name in self.types)

    def lines(self) -> Iterator[str]:
        """Their lines of the pipeline file."""
        return (f"    {PREFIX}{n}: {{type: {name}, nullable: true}}\n" for n, name in enumerate(self.types))
