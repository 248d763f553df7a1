"""The columns that a pipeline has by its records or their schemas besides those of its file, and their widening."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from offset_ledger.pipeline_file.json_path import touch
from offset_ledger.pipeline_file.pipeline import REST, Column, RecordShape

SAMPLED = "from a sample, which the first plan keeps"


@dataclass(frozen=True, slots=True)
class FollowedColumn:
    """A column as a schema made it, or made it wider, and the batch that brought it; neither where it was sampled."""

    column: Column
    schema_id: int = 0
    batch_id: int = 0

    @property
    def origin(self) -> str:
        """The origin of the column, in words."""
        return f"by schema id {self.schema_id}, with batch {self.batch_id}" if self.batch_id else SAMPLED


def effective(record: RecordShape, followed: Iterable[Column]) -> RecordShape:
    """Return the record with these columns, oldest first, where the pipeline file leaves room for them.

    The file decides about a name and about a place in the record; a column of it can only have got a wider type.
    """
    columns = {column.name: column for column in record.columns if column is not REST}
    keys = (*(path for key in record.key_columns for path in (key.path, *key.aliases)), record.publish_at)
    keys += record.publish_at_aliases
    names = {key.name for key in record.key}
    for each in followed:
        known = columns.get(each.name)
        if known is None:
            read = any(path and touch(path, each.path) for path in keys)
            if not read and each.name not in names and not any(_excludes(column, each) for column in columns.values()):
                columns[each.name] = each
        elif known.path == each.path and widens(known.type.sql, each.type.sql):
            columns[each.name] = replace(known, type=each.type)
    return replace(
        record, columns=(*columns.values(), *record.columns[-1:]) if record.rest else tuple(columns.values())
    )


def _excludes(column: Column, other: Column) -> bool:
    """Return whether the places of both cannot be read: only a jsonb has others in it."""
    for path in filter(None, (column.path, *column.aliases)):
        outer = column if len(path) <= len(other.path) else other
        if touch(path, other.path) and (path == other.path or outer.type.name != "jsonb"):
            return True
    return False


_WIDER = {
    "smallint": {"integer", "bigint", "numeric"},
    "integer": {"bigint", "numeric"},
    "bigint": {"numeric"},
    "real": {"double precision"},
}
_VARCHAR = re.compile(r"character varying\((\d+)\)")
_NUMERIC = re.compile(r"numeric\((\d+),(\d+)\)")


def widens(before: str, after: str) -> bool:
    """Return whether the second type, as Postgres's format_type() prints it, has every value of the first, and more."""
    if text := _VARCHAR.fullmatch(before):
        longer = _VARCHAR.fullmatch(after)
        return after == "text" or bool(longer and int(longer[1]) > int(text[1]))
    if number := _NUMERIC.fullmatch(before):
        other = _NUMERIC.fullmatch(after)
        if other is None or before == after:
            return after == "numeric"
        # As many digits before the point, and after it.
        precision, scale, precision_after, scale_after = map(int, (*number.groups(), *other.groups()))
        return scale_after >= scale and precision_after - scale_after >= precision - scale
    return after in _WIDER.get(before, ())
