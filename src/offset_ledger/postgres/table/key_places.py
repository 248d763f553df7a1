"""The places in a record that name its event: with others the records of one event would be those of two."""

from psycopg2.extras import Json

from offset_ledger.errors import TargetMismatch
from offset_ledger.pipeline_file.json_path import format_path
from offset_ledger.pipeline_file.pipeline import Column, Pipeline
from offset_ledger.postgres.ledger.database import Cursor


def key_places(pipeline: Pipeline) -> dict[str, list[str]]:
    """The places of each column of the key, as messages name them."""
    return {column.name: _places(column) for column in pipeline.record.key_columns}


def _places(column: Column) -> list[str]:
    changed = f" ({', '.join(column.transform)})" if column.transform else ""
    if column.header is not None:
        places = [f"header {column.header}"]
    elif column.key is not None:
        places = [f"the Kafka key's {format_path(column.key)}" if column.key else "the Kafka key"]
    else:
        places = [format_path(path) for path in (column.path, *column.aliases) if path] or [f"value {column.default}"]
    return [f"{place}{changed}" for place in places]


def check_key_places(cursor: Cursor, pipeline: Pipeline) -> bool:
    """Check that the key is read as that of the committed rows; return whether it was recorded so.

    A column may get more places, and lose some, as long as one of them stays.

    Raises:
        TargetMismatch: it has other columns, or one of them is read elsewhere.
    """
    query = "SELECT DISTINCT key_places FROM offset_ledger.pipeline WHERE file = %s AND key_places IS NOT NULL"
    known = [row["key_places"] for row in cursor.execute(query, [pipeline.file]).fetchall()]
    wanted = key_places(pipeline)
    if known == [wanted]:
        return True
    if not known or not cursor.run("table/file_committed", file=pipeline.file).one()[0]:
        return False
    start = "or start a pipeline with another name and table"
    for before in known:
        if before.keys() != wanted.keys():
            raise TargetMismatch(
                f"pipeline {pipeline.name}: its committed rows are known by ({', '.join(before)}), and the pipeline "
                f"file says ({', '.join(wanted)}); nothing was changed; correct record.key, {start}"
            )
        for name, places in wanted.items():
            if set(before[name]).isdisjoint(places):
                raise TargetMismatch(
                    f"pipeline {pipeline.name}: {name} of its committed rows was read from {' or '.join(before[name])},"
                    f" and the pipeline file says {' or '.join(places)}, so that an event could have two rows; nothing "
                    f"was changed; keep the earlier place (in aliases), {start}; or, if both name the same events: "
                    f"offset-ledger accept table {pipeline.file} --why ..."
                )
    return False


def keep_key_places(cursor: Cursor, pipeline: Pipeline) -> None:
    """Record where the key is read from now on."""
    cursor.run("table/keep_key_places", places=Json(key_places(pipeline)), file=pipeline.file, pipeline=pipeline.name)
