"""Check: the pipeline file beside the table that it fills, before a batch meets what does not fit."""

from __future__ import annotations

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import get_connection
from offset_ledger.errors import AccessDenied, ConfigurationError, DatabaseUnavailable
from offset_ledger.ledger.database import connect, transaction
from offset_ledger.ledger.migrate import check_migrated
from offset_ledger.target.fit import enabled_triggers, own_uniques
from offset_ledger.target.table import check_target

_SECONDS = 5  # for a server that is away: who checks a file waits for an answer


def compare_table(pipeline: Pipeline) -> tuple[str, str]:
    """What came of comparing the table with the file: fits, missing or not compared, and a line about it.

    Raises:
        TargetMismatch: the table does not fit.
        ConfigurationError: another pipeline fills it.
    """
    table = f"table {pipeline.target.schema}.{pipeline.target.table}"
    try:
        database = get_connection(pipeline.target.connection)
        with connect(database, timeout=_SECONDS) as session:
            check_migrated(session)
    except (ConfigurationError, DatabaseUnavailable, AccessDenied) as error:
        return "not compared", f"{table} was not compared with the file: {error}"
    with connect(database, timeout=_SECONDS) as session, transaction(session) as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")
        if check_target(cursor, pipeline):
            beside = [f"the trigger {name}" for name in enabled_triggers(cursor, pipeline)]
            beside += [f"the unique index {name}" for name in own_uniques(cursor, pipeline)]
            but = f", and has {', '.join(beside)}: a row that these change or refuse stops a commit" if beside else ""
            return "fits", f"{table} fits{but}"
    return "missing", f"{table} does not exist yet; the first batch creates it"
