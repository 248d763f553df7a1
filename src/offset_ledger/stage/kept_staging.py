"""What earlier attempts have left of a batch, and whether the next one can go on with that."""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum, auto

from offset_ledger.config.model import Pipeline
from offset_ledger.errors import LostRange
from offset_ledger.ledger import batches, staging
from offset_ledger.ledger.completeness import is_whole
from offset_ledger.ledger.database import Cursor, Session, transaction
from offset_ledger.ledger.followed_columns import with_columns
from offset_ledger.ledger.staging import StagingTables
from offset_ledger.model.batch import Batch
from offset_ledger.model.states import State

log = logging.getLogger(__name__)


class KeptStaging(Enum):
    """What earlier attempts have left of a batch."""

    NOTHING = auto()  # that could be used
    OTHER_COLUMNS = auto()  # all of it, and the pipeline file declares other columns now
    OTHER_FILE = auto()  # all of it, and the pipeline file has changed otherwise
    USABLE = auto()


def read_kept(session: Session, pipeline: Pipeline, batch_id: int) -> tuple[Batch, KeptStaging]:
    """The batch, and what is left of its staging: all of it, unchecked, if the batch is committed."""
    with transaction(session) as cursor:
        batch = batches.read_batch_of(cursor, pipeline.name, batch_id)
        kept = KeptStaging.USABLE if batch.state is State.COMMITTED else _kept(cursor, pipeline, batch)
    if (batch.approved or batch.late_approved) and kept is not KeptStaging.USABLE:
        log.warning(
            "staging of the approved batch %d cannot be used any more; it is staged and validated again", batch_id
        )
    return batch, kept


def is_last_copy(batch: Batch, kept: KeptStaging, check_topic: Callable[[Batch], object]) -> bool:
    """Whether the batch goes on with what an earlier pipeline file staged, because the topic no longer has the records.

    Raises:
        LostRange: the topic does not have them, and no staging can be used.
    """
    try:
        check_topic(batch)
    except LostRange as lost:
        if kept is KeptStaging.NOTHING:
            raise
        gone = str(lost).split("; nothing was committed")[0]  # without its advice to abandon the batch
        if kept is KeptStaging.OTHER_COLUMNS:
            raise type(lost)(
                f"{gone}. All of it is staged, with other columns than the pipeline file declares now: restore them in "
                f"the file to commit batch {batch.batch_id}; nothing was committed"
            ) from lost
        log.warning("%s. All of it is staged, by an earlier pipeline file: %s goes on with that", gone, batch)
        return True
    return False


def _kept(cursor: Cursor, pipeline: Pipeline, batch: Batch) -> KeptStaging:
    if batch.state not in (State.STAGED, State.VALIDATED) or not is_whole(cursor, batch):
        return KeptStaging.NOTHING
    if not staging.fits(cursor, StagingTables(batch.attempt), with_columns(cursor, pipeline, batch.batch_id).record):
        return KeptStaging.OTHER_COLUMNS
    # An approved batch was validated with the file of that time.
    same = batch.approved or batch.config_hash == pipeline.config_hash
    return KeptStaging.USABLE if same else KeptStaging.OTHER_FILE
