"""What a world allows, the defects that can be switched on, and the step that every action returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from tests.model.state import Database, File, Record, Source, State, Topic


class Defect(Enum):
    """A fault that the protocol could have; its value says what is done instead of the right thing."""

    EPOCH_NOT_COMPARED = "the commit does not compare its epoch with the batch's"
    CURSOR_APART = "the cursor is moved in another transaction than the rows"
    LAST_WRITE_WINS = "the merge writes every row, whatever is in the table"
    SEAL_NOT_FENCED = "the seal does not compare its epoch with the batch's"
    LOST_ANSWER_IS_FAILURE = "a lost answer to COMMIT is taken for a failure, and the transaction is run again"
    STAGING_WITHOUT_MANIFEST = "what is in staging counts as complete, without its manifest"
    SLICE_WITHOUT_SEAL = "the seal believes acknowledged slices, and does not read the manifest"
    ORDER_PER_PIPELINE = "each pipeline of a file keeps the order of its rows, not the table"
    UNPLANNED_IS_OLD = "a pipeline that was never planned is taken for one from before orders were recorded"
    REWRITE_IS_WRITTEN = "rows of a table that was rewritten count as written by the batch"
    AHEAD_STAYS = "a batch that is claimed again keeps the one that was planned from its ends"
    LETTERS_FORGOTTEN = "letters of a commit that the database has lost are skipped"


class Step(NamedTuple):
    """An action that was taken: its name, with what, and the state afterwards."""

    name: str
    parameters: tuple[Any, ...]
    state: State


@dataclass(frozen=True)
class World:
    """A small world. Faults, and what people do without need, are bounded; steps of recovery are not.

    ``left`` says how often something may happen, "this or that" together; ``scripts`` are topics to start with.
    """

    name: str
    about: str
    actions: tuple[Callable[[Rules, State], Iterator[Step]], ...]
    scripts: tuple[tuple[Topic, ...], ...]
    left: Mapping[str, int] = field(default_factory=dict)
    attempts: int = 1
    keys: int = 1
    width: int = 1
    cuts: bool = False
    transactional: bool = False
    compacted: bool = False
    skip_existing: bool = False
    rejects: bool = False
    letters: bool = False
    file: File = field(default_factory=File)

    @property
    def gaps(self) -> bool:
        """Whether the topic explains offsets without a record."""
        return self.transactional or self.compacted

    def initial(self) -> Iterator[State]:
        """The states that it starts with."""
        for topics in self.scripts:
            db = Database(sources=(Source(),) * len(topics), table=(None,) * self.keys)
            yield State(topics, db, file=self.file, left=tuple(self.left.values()))


class Rules:
    """A world, and the defect that is switched on in it."""

    def __init__(self, world: World, defect: Defect | None = None) -> None:
        self.world, self.defect = world, defect
        self._places = {name: place for place, names in enumerate(world.left) for name in names.split(" or ")}

    def may(self, state: State, name: str) -> bool:
        """Whether the world has something of that left."""
        place = self._places.get(name)
        return place is not None and state.left[place] > 0

    def spend(self, state: State, name: str) -> State:
        """The state with one less of it."""
        place = self._places[name]
        left = state.left
        return state._replace(left=(*left[:place], left[place] - 1, *left[place + 1 :]))

    def is_free(self, state: State) -> bool:
        """Whether another process may start."""
        return len(state.attempts) < self.world.attempts

    def actions(self, state: State) -> list[Step]:
        """Everything that may happen next."""
        return [step for action in self.world.actions for step in action(self, state)]

    def step(self, state: State, name: str, parameters: tuple[Any, ...]) -> State:
        """The state after that action.

        Raises:
            LookupError: it is not possible.
        """
        for each in self.actions(state):
            if (each.name, each.parameters) == (name, parameters):
                return each.state
        raise LookupError(f"{name} {parameters} is not possible")


def decodes(record: Record, file: File) -> bool:
    """Whether the record becomes a row by this pipeline file."""
    return record.what != "bad" or file.fixed
