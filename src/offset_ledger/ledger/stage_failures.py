"""Why drivers on a cluster failed, for the tasks that submitted them."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from offset_ledger.ledger.database import Cursor, named_sql


@dataclass(frozen=True, slots=True)
class StageFailure:
    """The class of an error of this package, by its name, and its line."""

    error: str
    message: str


def record(cursor: Cursor, submission: str, batch_id: int, failure: StageFailure) -> None:
    """Keep it under the id of the submission; of a driver that is started again, the last one."""
    values = {"submission": submission, "batch_id": batch_id, **asdict(failure)}
    cursor.execute(named_sql("stage/record_failure"), values)


def read(cursor: Cursor, submission: str) -> StageFailure | None:
    """The failure of that submission, if its driver has recorded one."""
    cursor.execute("SELECT error, message FROM offset_ledger.stage_failure WHERE submission = %s", [submission])
    row = cursor.fetchone()
    return StageFailure(row["error"], row["message"]) if row else None
