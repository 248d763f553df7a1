"""Each defect with a world that is small and shows it, and the statement that it breaks there."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from tests.model.explore import PROGRESS
from tests.model.rules import Defect, World
from tests.model.table_worlds import (
    APPENDED,
    BESIDE_FIRST,
    CLASSIFIED,
    CONFLICTS,
    CONFLICTS_BESIDE,
    FAMILY,
    FILLED,
    GROUPS,
    LEFT,
    MARKERS,
    OVERTAKEN,
    RACES,
    TOGETHER,
    gone,
    of,
    some_that_give,
    that_bring,
)  # fmt: skip
from tests.model.worlds import AHEAD, FENCING, FIRST_STAYS, LETTERS, ORDER, bad, delete, row, to_come, topic

FENCED = replace(
    FENCING,
    name="fencing of one record",
    scripts=((to_come([row(0, 1)]),),),
    actions=FENCING.actions[:1] + FENCING.actions[2:],  # without transactions
    left={"rival": 1, "crash or fix": 1, "kill or abandon or lost answer": 1},
)
PAIRS = replace(
    ORDER,
    name="order of two records",
    scripts=tuple((topic([first]), topic([row(0, 2, 1)])) for first in (row(0, 1, 2), delete(0, 1, 2))),
)
WIDENED = replace(
    FIRST_STAYS,
    name="first stays, one record",
    scripts=((to_come([row(0, 1)]),),),
    actions=FIRST_STAYS.actions[:-3],
    left={"replay": 1, "widen": 1},
)
GONE_BACK = replace(
    LETTERS,
    name="letters of two records",
    scripts=((topic([bad(0, 1), bad(0, 2)]),),),
    left={"replicate": 1, "failover or restore": 1, "kill": 1, "dismiss": 1},
)
TWO_BATCHES = replace(
    AHEAD,
    name="ahead, one fault",
    scripts=AHEAD.scripts[:1],
    left={"abandon or expire or fix or crash or kill or lost answer": 1},
)
LONE = replace(
    GROUPS,
    name="groups of two records",
    scripts=((topic([of(0, 1, "a")], [of(0, 2, "b", spelling=1)]),),),
)
LEFT_ONCE = replace(LEFT, name="left by three records", scripts=tuple(some_that_give("a a b"))[:1])
CAME = replace(FILLED, name="a column that comes", scripts=((topic([of(0, 1, "a")], [of(0, 2, "b")]),),))
FIRST_OF_TWO = replace(
    BESIDE_FIRST, name="first stays beside, two records", scripts=((topic([gone(0, 1), of(1, 2)]),),)
)
COPIED = replace(TOGETHER, name="together, two records", scripts=LONE.scripts)
CLAIMED = replace(CONFLICTS, name="conflicts of two records", scripts=tuple(that_bring("0u1 1u1")))
DEFAULTED = replace(RACES, name="races of two records", scripts=tuple(that_bring("0u1 1u1")))
FREED = replace(CONFLICTS_BESIDE, name="a value that is freed", scripts=tuple(that_bring("0u1 0d 1u1", "0u0 / 1u0 0d")))
AGAIN = replace(
    APPENDED, name="appended, one replay", left={"replay": 1, "redrive or dismiss": 1, "fix": 1, "prune": 1}
)
SMALL_WORLDS = (
    FENCED, PAIRS, WIDENED, GONE_BACK, TWO_BATCHES,
    LONE, LEFT_ONCE, CAME, FIRST_OF_TWO, COPIED, CLAIMED, DEFAULTED, FREED, CLASSIFIED, FAMILY, OVERTAKEN, AGAIN,
)  # fmt: skip


class Caught(NamedTuple):
    """Where a defect is met, and by which statement."""

    world: World
    statement: str


BELOW_A_CURSOR = "every_record_below_a_cursor_has_its_effect"
CAUGHT: dict[Defect, Caught] = {
    Defect.EPOCH_NOT_COMPARED: Caught(FENCED, "only_the_newest_claim_moves_a_batch"),
    Defect.CURSOR_APART: Caught(FENCED, "a_cursor_is_the_end_of_its_chain"),
    Defect.LAST_WRITE_WINS: Caught(PAIRS, BELOW_A_CURSOR),
    Defect.SEAL_NOT_FENCED: Caught(FENCED, "what_is_sealed_is_whole"),
    Defect.LOST_ANSWER_IS_FAILURE: Caught(FENCED, "the_table_has_what_was_added"),
    Defect.STAGING_WITHOUT_MANIFEST: Caught(FENCED, BELOW_A_CURSOR),
    Defect.SLICE_WITHOUT_SEAL: Caught(FENCED, BELOW_A_CURSOR),
    Defect.ORDER_PER_PIPELINE: Caught(PAIRS, BELOW_A_CURSOR),
    Defect.UNPLANNED_IS_OLD: Caught(PAIRS, PROGRESS),
    Defect.AHEAD_STAYS: Caught(TWO_BATCHES, "a_batch_ahead_begins_where_the_open_one_ends"),
    Defect.LETTERS_FORGOTTEN: Caught(GONE_BACK, "a_letter_is_sent_once"),
    Defect.GROUPS_BY_NAME: Caught(LEFT_ONCE, "every_value_below_a_cursor_has_its_effect"),
    Defect.UNWRITTEN_IS_KEPT: Caught(CAME, "every_value_below_a_cursor_has_its_effect"),
    Defect.USERS_ROW_IS_NONE: Caught(FIRST_OF_TWO, "a_users_row_stays_first"),
    Defect.KEYS_BY_IMAGE: Caught(LONE, PROGRESS),
    Defect.CLASSES_LOST: Caught(CLASSIFIED, PROGRESS),
    Defect.DEFAULTS_UNSEEN: Caught(DEFAULTED, PROGRESS),
    Defect.DELETES_HOLD_VALUES: Caught(FREED, "a_delete_beside_is_no_conflict"),
    Defect.FREED_IS_TAKEN: Caught(FREED, "a_conflict_names_a_row_that_has_the_value"),
    Defect.COPY_OF_ANOTHER_TYPE: Caught(COPIED, PROGRESS),
    Defect.COLLATION_INHERITED: Caught(CLAIMED, PROGRESS),
    Defect.GROUPS_BY_COMMENT: Caught(LONE, PROGRESS),
    Defect.DELETES_FIRST: Caught(FAMILY, PROGRESS),
    Defect.LONE_GROUP_STOPS: Caught(LONE, PROGRESS),
    Defect.APPENDED_AGAIN: Caught(AGAIN, "the_table_has_what_was_added"),
    Defect.MARKERS_BY_AGE: Caught(MARKERS, "a_pruned_delete_is_not_contradicted"),
}
