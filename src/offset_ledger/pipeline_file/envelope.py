"""The paths of a pipeline file whose records are change events: where a row is in Debezium's envelope."""

from collections.abc import Iterable
from dataclasses import replace

from offset_ledger.pipeline_file.json_path import format_path
from offset_ledger.pipeline_file.located import Refused, Value
from offset_ledger.pipeline_file.pipeline import (
    Column,
    ColumnsFrom,
    FieldCondition,
    JsonPath,
    Pipeline,
    RecordShape,
    Tombstone,
)
from offset_ledger.pipeline_file.source import Format

MEMBERS = ("before", "after", "source", "op", "ts_ms", "ts_us", "ts_ns", "transaction")
"""The members of the envelope; other paths are in the row after the change."""
UNAVAILABLE = b"__debezium_unavailable_value"
"""The placeholder for a value that the database did not log, because it did not change (unchanged TOAST)."""


def in_envelope(record: RecordShape, says_tombstone: bool) -> RecordShape:
    """The shape of the records, whose tombstones only repeat the delete before them."""
    return replace(
        record,
        event_id=record.event_id and _inside(record.event_id),
        publish_at=record.publish_at and _inside(record.publish_at),
        event_id_aliases=_all(record.event_id_aliases),
        publish_at_aliases=_all(record.publish_at_aliases),
        key=tuple(map(_column, record.key)),
        columns=tuple(map(_column, record.columns)),
        delete_when=FieldCondition(("op",), "d"),
        tombstone=record.tombstone if says_tombstone else Tombstone.SKIP,
        unavailable=record.unavailable or UNAVAILABLE,
        envelope=True,
    )


def with_unavailable(record: RecordShape, word: str) -> RecordShape:
    """The shape of records in which the word stands for values that were not sent."""
    return replace(record, unavailable=bytes.fromhex(word[4:]) if word.startswith("hex:") else word.encode())


_SENT_AS_WORD = ("text[]", "varchar[]", "integer[]", "bigint[]", "uuid[]", "bytea[]", "jsonb[]")
_DAYS = ("date[]", "epoch_days")


def notes_on(record: RecordShape) -> list[str]:
    """Return what a file cannot know of values that were not sent, in lines."""
    lost = [
        each.name
        for each in record.columns
        if (
            each.type.name.endswith("[]")
            and each.type.name not in _SENT_AS_WORD
            and (each.type.name, each.encoding) != _DAYS
        )
        or each.encoding.startswith("unscaled")
    ]
    if record.unavailable is None or not lost:
        return notes_on_order(record)
    return [
        f"{', '.join(lost)}: from Postgres, an unchanged large value of these types arrives as null, as NULL does, and "
        "replaces what the row has: run ALTER TABLE … REPLICA IDENTITY FULL at the source",
        *notes_on_order(record),
    ]


_CLOCKS = {
    "ts": "what an incremental snapshot reads has the connector's clock, and wins over later changes",
    "lsn": "what an incremental snapshot reads has none, and is quarantined",
}
_WAITED = "it is the time of a statement, and what a transaction changed that waited for another loses"
_OF_STATEMENT = {
    "": f"; from MariaDB, and from MySQL without GTIDs, {_WAITED}",
    "mysql": f"; without GTIDs {_WAITED}",
    "mariadb": f"; {_WAITED}",
}


def notes_on_order(record: RecordShape, connector: str = "") -> list[str]:
    """Return what an order of change events other than the log's gets wrong, in lines; of that connector, or of any."""
    path = record.publish_at or ("",)
    clock = path[-1].removeprefix("__source_").split("_")[0]
    of_source = path[-1].startswith("__source_") or (record.envelope and path[0] == "source")
    if not of_source or clock not in _CLOCKS:
        return []
    wrong = _CLOCKS[clock]
    if clock == "ts" and connector in _OF_STATEMENT:
        wrong += _OF_STATEMENT[connector]
    return [f"publish_at: {format_path(path)} is not the order of the changes: {wrong}; write publish_at: log"]


def _inside(path: JsonPath) -> JsonPath:
    return path if path[0] in MEMBERS else ("after", *path)


def _all(paths: Iterable[JsonPath]) -> tuple[JsonPath, ...]:
    return tuple(map(_inside, paths))


def _column(column: Column) -> Column:
    return replace(column, path=_inside(column.path), aliases=_all(column.aliases)) if column.path else column


def check_envelope(envelope: Value, file: Value, pipeline: Pipeline) -> None:
    """Note what a file of change events cannot say."""
    record, target = pipeline.record, pipeline.target
    if pipeline.source.format is Format.PROTOBUF:
        envelope.note(Refused("Debezium writes no envelope in Protobuf that is read here", "write avro or json"))
    never = {
        ("record", "delete_when"): record.delete_when is not None,
        ("record", "rest"): record.rest,
        ("record", "columns"): record.sampled,
        ("target", "columns_from"): target.columns_from is ColumnsFrom.SCHEMA,
    }
    why = {
        "delete_when": ("the operation of the envelope says what deletes", "drop it"),
        "rest": ("the rest of an envelope is the row before the change, and its source", "drop it"),
        "columns": ("auto looks at the members of the record, which are those of the envelope", "name the columns"),
        "columns_from": ("the fields of the schema are those of the envelope", "write columns_from: file"),
    }
    for place, is_said in never.items():
        if is_said and (each := file.at(*place)):
            each.note(Refused(*why[place[-1]]))
    where = file.at("record", "where")
    if where and any(_inside(each.path)[0] in ("before", "after") for each in record.where_in_values):
        where.note(
            Refused("a change event lacks the row before or after it", "write a path in $.source, or drop where")
        )
