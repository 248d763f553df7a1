"""The sections of a pipeline file together: what one says that another one excludes."""

from offset_ledger.pipeline_file.keys import Section
from offset_ledger.pipeline_file.located import Refused, Value
from offset_ledger.pipeline_file.pipeline import Column, Evolve, Merge, OnConflict, Pipeline, RecordShape, Tombstone
from offset_ledger.pipeline_file.record import check_keyed
from offset_ledger.pipeline_file.sections import check_copied, check_partitions, check_quality
from offset_ledger.pipeline_file.source import KeyFormat


def check_together(said: Section, pipeline: Pipeline) -> None:
    """Note what the sections of the file cannot say together."""
    file, record, target = said.value, pipeline.record, pipeline.target
    if record.append:
        _check_append(file, pipeline)
    elif "record" in said.given:
        check_keyed(said.entries["record"])
    _check_keys(file, pipeline)
    _check_columns(file, pipeline)
    if {"record", "target"} <= said.given.keys():
        _check_groups(file, pipeline)
        if bookkeeping := file.at("target", "bookkeeping"):
            check_copied(bookkeeping, record, target)
        if by := file.at("target", "partitions", "by"):
            check_partitions(by, record, target)
    if quality := file.at("quality"):
        check_quality(quality, pipeline)


def _check_keys(file: Value, pipeline: Pipeline) -> None:
    """Note a format of keys that nothing reads, and columns that are not in keys of that format."""
    record, form = pipeline.record, pipeline.source.key_format
    of_keys = [column for column in (*record.key, *record.columns) if column.key is not None]
    key_format = file.at("source", "key_format")
    if key_format and not record.is_kafka_key and not of_keys:
        why = "key has paths" if record.key else "columns read none" if record.append else "event_id is a path"
        of_column = record.key or record.append
        right = "drop it, or read a column of the key" if of_column else "drop it, or write event_id: key"
        key_format.note(Refused(f"the keys are not read: record.{why}", right))
    for column in of_keys:
        key = file.at("record", _section(record, column), column.name, "key")
        if key and column.key and form is KeyFormat.TEXT:
            key.note(Refused("keys are text, which has no members", "add source.key_format, or write $"))
        if key and not column.key and form not in (KeyFormat.TEXT, KeyFormat.JSON):
            key.note(Refused(f"a key in {form} is no text", "write the path of a value in it"))


def _section(record: RecordShape, column: Column) -> str:
    return "key" if column in record.key else "columns"


def _check_columns(file: Value, pipeline: Pipeline) -> None:
    """Note schemas without a registry, columns that nothing can add, and years that no partition has."""
    record, source, target = pipeline.record, pipeline.source, pipeline.target
    has_registry = file.at("source", "registry") is not None
    schema = file.at("record", "where", "schema")
    if schema and record.schemas and not has_registry:
        schema.note(Refused("without a registry no record names its schema", "drop it, or add source.registry"))
    columns_from, columns = file.at("target", "columns_from"), file.at("record", "columns")
    if columns_from and pipeline.follows_schemas and not has_registry:
        wrong = "records name no schema that columns could come from"
        columns_from.note(Refused(wrong, "add source.registry, or write columns_from: file"))
    if columns_from and pipeline.follows_schemas and target.evolve is Evolve.NONE:
        wrong = "no column can come from a schema while evolve is none"
        columns_from.note(Refused(wrong, "add evolve: add_columns or evolve: widen, or write columns_from: file"))
    if columns and record.sampled and source.several:
        columns.note(Refused("auto takes the columns of one topic, and the file reads several", "name the columns"))
    if columns and record.sampled and pipeline.follows_schemas:
        columns.note(Refused("auto keeps the columns that columns_from: schema would add to", "write one of the two"))
    for column in record.all_columns if target.partitions else ():
        years = file.at("record", _section(record, column), column.name, "years")
        if column.far and years and target.partitions and target.partitions.by in (None, column.name):
            wrong = "commits create partitions for the years 1 to 9999 alone"
            years.note(Refused(wrong, "drop it, or name another column as target.partitions.by"))


def _check_groups(file: Value, pipeline: Pipeline) -> None:
    """Note columns that a record may leave as they are, where no row can be made of several records."""
    record, target = pipeline.record, pipeline.target
    first = next((column for column in record.columns if column.group), None)
    each = file.at("record", "columns", first.name) if first else None
    wrong, right = "", ""
    if not target.beside:
        wrong, right = "the order of each group is kept beside the table alone", "add target.bookkeeping: beside"
    elif target.merge is Merge.SKIP_EXISTING:
        wrong, right = "with merge: skip_existing no row changes", "write merge: newest_wins"
    elif target.on_conflict is OnConflict.QUARANTINE:
        wrong, right = "with on_conflict: quarantine a row has to be one record", "write on_conflict: fail"
    if each and wrong and not record.append:
        each.note(Refused(wrong, f"{right}, or drop absent and group"))


_NO_KEY = ("with merge: append a row is known by topic, partition and offset alone", "drop it")
_NO_DELETE = ("with merge: append no record deletes a row", "drop it")
_KEEP = "write merge: newest_wins"


def _check_append(file: Value, pipeline: Pipeline) -> None:
    """Note everything about keys, deletes or rows that change: appended rows have no key and no order."""
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
