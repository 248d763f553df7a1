"""Check the table that a pipeline fills against its file, before a batch fails on what does not fit."""

from __future__ import annotations

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import get_connection
from offset_ledger.errors import AccessDenied, ConfigurationError, DatabaseUnavailable
from offset_ledger.ledger import pipelines
from offset_ledger.ledger.database import connect, read_only, transaction
from offset_ledger.ledger.followed_columns import with_columns
from offset_ledger.ledger.open import open_ledger_at
from offset_ledger.target.fit import enabled_triggers, own_uniques
from offset_ledger.target.table import check_target

_TIMEOUT = 5  # seconds: a person is waiting for the answer


def compare_table(pipeline: Pipeline) -> tuple[str, str]:
    """Whether the table fits the file (fits, missing, to be changed or not compared), and a line about it.

    Raises:
        TargetMismatch: the table does not fit.
        ConfigurationError: another pipeline fills it.
    """
    table = f"table {pipeline.target.schema}.{pipeline.target.table}"
    try:
        database = get_connection(pipeline.target.connection)
        with open_ledger_at(database, timeout=_TIMEOUT):
            pass
    except (ConfigurationError, DatabaseUnavailable, AccessDenied) as error:
        return "not compared", f"{table} was not compared with the file: {error}"
    with connect(database, timeout=_TIMEOUT) as session, transaction(session) as cursor:
        read_only(cursor)
        pipeline = pipelines.registered_of(cursor, pipeline) or pipeline
        pipeline = with_columns(cursor, pipeline)
        changes = check_target(cursor, pipeline)
        if changes is None:
            return "missing", f"{table} does not exist yet; the first batch creates it"
        if changes:
            clauses = ", ".join(change.clause for change in changes)
            return "to be changed", f"{table} fits after the next commit, which makes: {clauses}"
        extras = [f"the trigger {name}" for name in enabled_triggers(cursor, pipeline)]
        extras += [f"the unique index {name}" for name in own_uniques(cursor, pipeline)]
        note = f", and has {', '.join(extras)}: a row that these change or refuse stops a commit" if extras else ""
        return "fits", f"{table} fits{note}"
