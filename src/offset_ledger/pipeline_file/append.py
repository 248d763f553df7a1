"""A pipeline file that appends each record as a row, and what it cannot have: such rows have no key and no order."""

from offset_ledger.pipeline_file.located import Refused, Value
from offset_ledger.pipeline_file.pipeline import OnConflict, Pipeline, Tombstone

_NO_KEY = ("with merge: append a row is known by topic, partition and offset alone", "drop it")
_NO_DELETE = ("with merge: append no record deletes a row", "drop it")
_KEEP = "write merge: newest_wins"


def check_append(file: Value, pipeline: Pipeline) -> None:
    """Note everything in the file about keys, deletes or rows that change."""
    record, target = pipeline.record, pipeline.target
    never: dict[tuple[str, ...], tuple[str, str]] = {
        ("record", "event_id"): _NO_KEY,
        ("record", "key"): _NO_KEY,
        ("record", "delete_when"): _NO_DELETE,
        ("target", "deletes"): _NO_DELETE,
        ("source", "envelope"): (
            "with merge: append no row changes, and a change event says how one does",
            f"{_KEEP}, or drop envelope and read paths such as $.after.id",
        ),
    }
    if record.log_orders:
        wrong = "with merge: append no row is newer than another"
        never["record", "publish_at"] = (wrong, "write kafka_timestamp, or drop it")
    if not (record.columns or record.sampled):
        never["record", "columns"] = ("with merge: append a row has no key, only its columns", "declare one, or auto")
    if record.tombstone is Tombstone.DELETE:
        never["record", "tombstone"] = (_NO_DELETE[0], "write quarantine or skip")
    if target.on_conflict is OnConflict.QUARANTINE:
        wrong = "with merge: append no row gives its values up to another"
        never["target", "on_conflict"] = (wrong, "write fail, or merge: skip_existing with the values as record.key")
    for column in record.columns:
        if column.group:
            wrong = "with merge: append no record leaves a row as it is"
            never["record", "columns", column.name] = (wrong, f"{_KEEP}, or drop absent and group")
    for place, refused in never.items():
        if each := file.at(*place):
            each.note(Refused(*refused))
