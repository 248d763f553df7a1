"""Rename and forget: a pipeline gets another name in the ledger, or gives up its name and its table."""

import re
from pathlib import Path

from psycopg2 import sql

from offset_ledger.base.units import counted
from offset_ledger.errors import ConfigurationError, StateConflict
from offset_ledger.model.batch import Origin
from offset_ledger.pipeline_file.names import PIPELINE_PATTERN
from offset_ledger.pipeline_file.parse import FOLDER, known_names, parse_named
from offset_ledger.postgres.ledger import batches, dead_letters, pipelines, row_order
from offset_ledger.postgres.ledger.database import Cursor, Session, transaction


def rename_pipeline(session: Session, old: str, new: str, origin: Origin, why: str) -> None:
    """Give a pipeline, with all topics of its file, another name; the file with that name continues at its cursors.

    Raises:
        ConfigurationError: the ledger does not know the old name, or has the new one, or no file could be called so.
        StateConflict: a batch is open, or dead letters wait, which carry the old name.
        AccessDenied: the login may not change history.
    """
    if not re.fullmatch(PIPELINE_PATTERN, new):
        raise ConfigurationError(
            f"{new!r} is no pipeline name; write at most 63 of a-z, 0-9 and _, beginning with a letter"
        )
    with transaction(session) as cursor:
        names = _lock(cursor, old)
        if new in pipelines.registered_files(cursor):
            raise ConfigurationError(f"the ledger has pipeline {new} already; choose another name, or forget that one")
        if letters := sum(sum(dead_letters.waiting(cursor, each).values()) for each in names):
            raise StateConflict(
                f"{counted(letters, 'dead letter')} of {old} would be delivered under another name; first run "
                f"offset-ledger quarantine deliver {old}"
            )
        pipelines.rename(cursor, names, old, new, origin, why)


def forget_pipeline(
    session: Session, name: str, origin: Origin, why: str, with_quarantine: bool = False, folder: Path = FOLDER
) -> str:
    """Free the name and the table of this pipeline for the next one; return the name that its history has now.

    Raises:
        ConfigurationError: the ledger does not know the name, or its file is still in the folder, with that table.
        StateConflict: a batch is open, the table has rows, or records wait in quarantine and may not be given up.
        AccessDenied: the login may not change history, or not read the table.
    """
    with transaction(session) as cursor:
        names = _lock(cursor, name)
        committed = [row for each in names for row in cursor.run("table/committed_into", pipeline=each)]
        tables = {row["target"] for row in committed if row["target"]}
        if name in known_names(folder):
            file = parse_named(name, folder)
            if tables <= {file.target.name}:
                raise ConfigurationError(
                    f"{file.path} is still there, so the next run of {name} would begin again at source.start; "
                    "remove the file first, or change its target.table if that is what you want"
                )
        for table in tables:
            if not pipelines.has_bookkeeping(cursor, name) and row_order.has_rows(cursor, sql.SQL(table)):
                raise StateConflict(
                    f"table {table} still has rows of {name}, which no batch of another pipeline could account for; "
                    "drop or empty the table first, or rename it (ALTER TABLE ... RENAME) to keep them"
                )
        if not with_quarantine and (records := pipelines.waiting_records(cursor, names)):
            raise StateConflict(
                f"{counted(records, 'record')} of {name} would stay in quarantine for ever; retry or dismiss them "
                "first, or give them up with --with-quarantine"
            )
        return pipelines.rename(cursor, names, name, None, origin, why)


def _lock(cursor: Cursor, file: str) -> list[str]:
    """Lock the pipelines of the file, none of which may have an open batch, and return their names."""
    known = pipelines.registered_files(cursor)
    if file not in known:
        has = f"it has {', '.join(known)}" if known else "it has none"
        raise ConfigurationError(f"the ledger of this connection has no pipeline {file!r}; {has}")
    names = pipelines.lock_file(cursor, file)
    for name in names:
        for batch_id in batches.open_batches(cursor, name):
            raise StateConflict(
                f"batch {batch_id} of {name} is open; let its run commit it, or run "
                f"offset-ledger batch abandon {batch_id} --why ..."
            )
    return names
