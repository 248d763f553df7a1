"""What a world allows, the defects that can be switched on, and the step that every action returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from tests.model.state import USERS, Database, File, Record, Source, State, Topic, Values


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
    AHEAD_STAYS = "a batch that is claimed again keeps the one that was planned from its ends"
    LETTERS_FORGOTTEN = "letters of a commit that the database has lost are skipped"
    GROUPS_BY_NAME = "a group that was known once has its order of then, whatever columns it had meanwhile"
    UNWRITTEN_IS_KEPT = "a column that no commit has written gets the order of its row with its group"
    USERS_ROW_IS_NONE = "skip_existing asks the bookkeeping alone whether there is a row"
    KEYS_BY_IMAGE = "a row has to have the very key that was staged, where groups or triggers are"
    CLASSES_LOST = "a commit whose classification fails goes another way, which knows no row that has lost"
    DEFAULTS_UNSEEN = "validation takes a column that its default fills for NULL"
    DELETES_HOLD_VALUES = "a delete that leaves no row holds the values that a row without values has"
    FREED_IS_TAKEN = "a value of a row that the batch deletes beside its bookkeeping is taken"
    COPY_OF_ANOTHER_TYPE = "a copy of the batch id is compared as another type"
    COLLATION_INHERITED = "the search for conflicts fails on columns of a nondeterministic collation"
    GROUPS_BY_COMMENT = "the groups of before are known by a comment"
    DELETES_FIRST = "rows are deleted before those that refer to them are changed"
    LONE_GROUP_STOPS = "a group of a row that somebody deleted by hand stops the commit"
    APPENDED_AGAIN = "what is appended is never compared with what was read before"
    MARKERS_BY_AGE = "a delete marker is pruned where the log of its own partition begins behind it"


class Step(NamedTuple):
    """An action that was taken: its name, with what, and the state afterwards."""

    name: str
    parameters: tuple[Any, ...]
    state: State


@dataclass(frozen=True)
class Table:
    """What is particular about the table that the file fills.

    ``users`` are the rows that were there before, key and value; ``shapes`` are those that the file may get. The last
    ones are the server's affair, and matter to defects and the machine alone: a trigger that changes nothing, a copy of
    the batch id, a unique index where a column of the users' own has its default, a nondeterministic collation, and
    batches of any size that are classified.
    """

    beside: bool = False
    users: tuple[tuple[int, int], ...] = ()
    unique: bool = False
    nulls_are_equal: bool = False
    refers: bool = False
    shapes: tuple[str, ...] = ()
    trigger: bool = False
    copies: bool = False
    default: bool = False
    collated: bool = False
    classified: bool = False


@dataclass(frozen=True)
class World:
    """A small world. Faults, and what people do without need, are bounded; steps of recovery are not.

    ``left`` says how often something may happen, "this or that" together; ``scripts`` are topics to start with. Where
    rows are appended, each record has a key of its own, which stands for its coordinates.
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
    append: bool = False
    rejects: bool = False
    letters: bool = False
    file: File = field(default_factory=File)
    table: Table = field(default_factory=Table)

    @property
    def gaps(self) -> bool:
        """Whether the topic explains offsets without a record."""
        return self.transactional or self.compacted

    def initial(self) -> Iterator[State]:
        """The states that it starts with."""
        for topics in self.scripts:
            db = Database(sources=(Source(),) * len(topics), table=(None,) * self.keys, values=self._users_rows())
            yield State(topics, db, file=self.file, left=tuple(self.left.values()))

    def _users_rows(self) -> tuple[Values | None, ...]:
        """The rows of the table before the first batch, if its bookkeeping is to be beside it."""
        if not self.table.beside:
            return ()
        there = {key: USERS._replace(record=USERS.record._replace(key=key, value=v)) for key, v in self.table.users}
        rows = (there.get(key) for key in range(self.keys))
        return tuple(row and Values(0, row, (USERS,) * len(self.file.shape)) for row in rows)


class Rules:
    """A world, and the defect that is switched on in it."""

    def __init__(self, world: World, defect: Defect | None = None) -> None:
        self.world, self.defect = world, defect
        self._places = {name: place for place, names in enumerate(world.left) for name in names.split(" or ")}

    def may(self, state: State, name: str) -> bool:
        """Whether the world has something of that left."""
        place = self._places.get(name)
        return place is not None and state.left[place] > 0

    def is_spent(self, state: State, name: str) -> bool:
        """Whether the world had something of that, and has no more."""
        return name in self._places and not self.may(state, name)

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
