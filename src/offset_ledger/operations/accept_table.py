"""Accept a table: it was emptied, restored or corrected on purpose, and is right as it is."""

from __future__ import annotations

from offset_ledger.config.model import Pipeline
from offset_ledger.errors import ConfigurationError
from offset_ledger.ledger import pipelines
from offset_ledger.ledger.database import transaction
from offset_ledger.ledger.open import open_ledger
from offset_ledger.model.batch import Origin
from offset_ledger.target import row_counts
from offset_ledger.target.table import ensure_target


def accept_table(pipeline: Pipeline, origin: Origin, why: str) -> int:
    """Count the table's event ids, which ``verify`` compares with from now on; returns the count.

    Raises:
        ConfigurationError: the pipeline has never been planned.
        TargetMismatch: the target table does not fit the pipeline file.
    """
    with open_ledger(pipeline) as session, transaction(session) as cursor:
        known = pipelines.registered_of(cursor, pipeline)
        if known is None:
            raise ConfigurationError(
                f"pipeline {pipeline.name} is not in this ledger, so there is nothing to compare; ingest it first"
            )
        pipelines.lock_pipeline(cursor, known.name)
        pipelines.lock_table(cursor, known)
        ensure_target(cursor, known)
        return row_counts.count(cursor, known, origin, why)
