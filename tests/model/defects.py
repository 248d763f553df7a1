"""Each defect with a world that is small and shows it."""

from __future__ import annotations

from dataclasses import replace

from tests.model.rules import Defect, World
from tests.model.worlds import FENCING, FIRST_STAYS, LETTERS, ORDER, bad, delete, row, to_come, topic

PAIRS = replace(
    ORDER,
    name="order of two",
    scripts=tuple((topic([first]), topic([row(0, 2, 1)])) for first in (row(0, 1, 2), delete(0, 1, 2))),
)
WIDENED = replace(FIRST_STAYS, name="widened", scripts=((to_come([row(0, 1)]),),), left={"replay": 1, "widen": 1})
GONE_BACK = replace(
    LETTERS, name="gone back", scripts=((topic([bad(0, 1), bad(0, 2)]),),), left={"replicate": 1, "failover": 1}
)
FOUND_IN: dict[Defect, World] = {
    Defect.EPOCH_NOT_COMPARED: FENCING,
    Defect.CURSOR_APART: FENCING,
    Defect.LAST_WRITE_WINS: PAIRS,
    Defect.SEAL_NOT_FENCED: FENCING,
    Defect.LOST_ANSWER_IS_FAILURE: FENCING,
    Defect.STAGING_WITHOUT_MANIFEST: FENCING,
    Defect.SLICE_WITHOUT_SEAL: FENCING,
    Defect.ORDER_PER_PIPELINE: PAIRS,
    Defect.UNPLANNED_IS_OLD: PAIRS,
    Defect.REWRITE_IS_WRITTEN: WIDENED,
    Defect.LETTERS_FORGOTTEN: GONE_BACK,
}
