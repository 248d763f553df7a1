"""The section ``record`` of a pipeline file: how a record becomes a row, and where each of its columns comes from."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import yaml

from offset_ledger.pipeline_file.column_types import ENCODINGS
from offset_ledger.pipeline_file.columns import ALIASES_KEY, COLUMNS, KEY_COLUMNS, PATH
from offset_ledger.pipeline_file.json_path import format_path
from offset_ledger.pipeline_file.keys import Attributes, Key, Kind, Section, note_missing, read_or_note, section
from offset_ledger.pipeline_file.located import Refused, Value
from offset_ledger.pipeline_file.names import MAX_COLUMNS
from offset_ledger.pipeline_file.pipeline import REST, FieldCondition, JsonPath, RecordShape, Tombstone
from offset_ledger.pipeline_file.values import FLAG, PLAIN_VALUE, choice, filled_text, one_or_more, text, word


def _path_or(
    only: str, longer: Kind[Attributes], words: Mapping[str, Attributes] = MappingProxyType({})
) -> Kind[Attributes | JsonPath | None]:
    """Read a path, None for the word ``only``, the meaning of another one of ``words``, or a mapping with more."""
    right = ", or ".join([only, *words])

    def read(value: Value) -> Attributes | JsonPath | None:
        if isinstance(value.node, yaml.MappingNode):
            return longer.read(value)
        try:
            said = text(value)
            return words[said] if said in words else (None if said == only else PATH.read(value))
        except Refused as refused:
            raise Refused(refused.wrong, f"{refused.right}, or {right}") from None

    return Kind(read, {"anyOf": [*({"const": each} for each in (only, *words)), PATH.schema, longer.schema]})


def _record(said: Section) -> RecordShape:
    rest = (REST,) if said.given.pop("rest", False) else ()
    if rest and len(said.given.get("columns", ())) == MAX_COLUMNS:
        wrong = f"{REST.name} is one column more than the {MAX_COLUMNS} that a table takes"
        said.entries["rest"].note(Refused(wrong, "drop a column, or drop the key"))
    record = said.make(RecordShape, columns=(*said.given.get("columns", ()), *rest))
    _check_key(said, record)
    # A tombstone has a key, headers and Kafka's timestamp alone: its event and its moment can only be these.
    inside = [each for each in record.key_columns if each.path]
    if record.tombstone is Tombstone.DELETE and inside:
        name, kind = inside[0].name, inside[0].type.sql
        wrong = f"a record without a value has no {name} to delete, unless it is the Kafka key"
        right = "event_id: key"
        if record.key:
            wrong = f"a record without a value has no {name} to delete, unless that is in the Kafka key"
            right = f"{name}: {{type: {kind}, key: $.{name}}}"
        said.entries["tombstone"].note(Refused(wrong, f"write {right}, or tombstone: quarantine"))
    if record.tombstone is Tombstone.DELETE and record.publish_at:
        wrong = (
            f"a record without a value has Kafka's timestamp alone, and rows have {format_path(record.publish_at)}: of "
            "two clocks none says whether the row or its delete is newer"
        )
        right = "write publish_at: log or kafka_timestamp, or let a record with a value delete: record.delete_when"
        said.entries["tombstone"].note(Refused(wrong, right))
    _check_paths(said, record)
    columns = said.entries["columns"].entries() if record.columns else {}
    of_name = {column.name: column.group for column in record.columns}
    keys = dict.fromkeys([*record.key_names, "publish_at"], "")  # the bookkeeping has a column for each group
    for column in record.columns:
        each = columns.get(column.name)
        if column.group and each and {**of_name, **keys}.get(column.group, column.group) != column.group:
            each.note(Refused(f"the group {column.group} has the name of another column", "give it another name"))
    return record


def check_keyed(said: Value) -> None:
    """Note what a section lacks if its rows are known by a key and have an order."""
    for name, other in (("event_id", "key"), ("publish_at", "publish_at")):
        if not {name, other} & said.entries().keys():
            note_missing(said, RECORD.schema, name)


def _check_key(said: Section, record: RecordShape) -> None:
    if not record.key:
        return
    if "event_id" in said.entries:
        wrong = "the columns of record.key say already what identifies the event"
        said.entries["event_id"].note(Refused(wrong, "keep one of the two"))
    declared, entries = {column.name for column in record.columns}, said.entries["key"].entries()
    for column in record.key:
        if not column.type.single:
            wrong = f"a key of {column.type.sql} would have many texts"
            entries[column.name].note(Refused(wrong, "read a single value of it"))
        if column.nullable:
            entries[column.name].note(Refused("a key is never NULL", "drop nullable, or write a default"))
        if column.group:
            entries[column.name].note(Refused("a record without its key is of no row", "drop absent and group"))
        if column.name in declared:
            wrong = f"{column.name} is a column of record.columns too"
            entries[column.name].note(Refused(wrong, "drop it there: a key is a column"))


# A value of the file, a path that it reads, and the type it is read as.
ReadPath = tuple[Value, JsonPath, str]


def _check_paths(said: Section, record: RecordShape) -> None:
    """Note each path that cannot stand in one record with an earlier one: only jsonb has members inside it.

    Paths of one value of the file are exempt, as they are never read from the same record; ``delete_when`` and
    ``where`` may read columns, and the event id may be a column too.
    """
    event_id = said.entries.get("event_id")
    columns = said.entries["columns"].entries() if record.columns else {}
    in_key = said.entries["key"].entries() if record.key else {}
    conditions = [("delete_when", each) for each in (record.delete_when,) if each]
    conditions += [("where", each) for each in record.where_in_values]
    read: list[tuple[Value | None, tuple[JsonPath | None, ...], str]] = [
        (event_id, (record.event_id, *record.event_id_aliases), "text"),
        (said.entries.get("publish_at"), (record.publish_at, *record.publish_at_aliases), "timestamptz"),
        *((said.entries.get(key), (each.path,), "jsonb") for key, each in conditions),
        *((columns[c.name], (c.path, *c.aliases), c.type.name) for c in record.columns if c.path),
        *((in_key[c.name], (c.path, *c.aliases), c.type.name) for c in record.key if c.path and c.name not in columns),
    ]
    leaves: dict[JsonPath, ReadPath] = {}
    above: dict[JsonPath, ReadPath] = {}
    for value, path, kind in [(value, path, kind) for value, paths, kind in read for path in paths if value and path]:
        other, _, other_kind = leaves.get(path, (value, (), "jsonb"))
        also_event_id = other is event_id and kind != "jsonb"
        if refused := _conflict(value, path, kind, {} if also_event_id else leaves, above):
            value.note(refused)
        if other_kind == "jsonb" or also_event_id:
            leaves[path] = (value, path, kind)
        for prefix in _prefixes(path):
            above.setdefault(prefix, (value, path, kind))


def _prefixes(path: JsonPath) -> list[JsonPath]:
    return [path[:length] for length in range(1, len(path))]


def _conflict(
    value: Value, path: JsonPath, kind: str, leaves: dict[JsonPath, ReadPath], above: dict[JsonPath, ReadPath]
) -> Refused | None:
    shown, right = format_path(path), "drop one of them, or read the outer one as jsonb"
    for prefix in _prefixes(path):
        leaf, _, leaf_kind = leaves.get(prefix, (value, (), "jsonb"))
        if leaf_kind != "jsonb" and leaf is not value:
            wrong = f"{shown} lies inside {format_path(prefix)}, which {leaf.where} reads as {leaf_kind}"
            return Refused(wrong, right, value.line)
    if kind == "jsonb":
        return None
    if path in leaves and leaves[path][2] != "jsonb":
        return Refused(f"{shown} is read by {leaves[path][0].where} already", "drop one of them", value.line)
    inner, inner_path, _ = above.get(path, (value, (), ""))
    if inner is not value:
        wrong = f"{shown} is read as {kind}, and {inner.where} reads {format_path(inner_path)} inside it"
        return Refused(wrong, right, value.line)
    return None


def _compared(meaning: str, example: str) -> Key:
    """The key of a value that a condition compares with."""
    return Key(PLAIN_VALUE, f"{meaning}: a text, true or false, or a whole number of 64 bits.", (example, True, 1))


def _condition(said: Section) -> Attributes:
    entries, given, schemas = said.entries, said.given, said.given.pop("schema", ())
    places, values = ([name for name in pair if name in entries] for pair in (("path", "header"), ("equals", "not")))
    for names, others, missing in ((places, values, "equals"), (values, places, "path")):
        if names and not others:
            note_missing(said.value, CONDITION.schema, missing)
        for name in names[1:]:
            entries[name].note(Refused(f"{names[0]} says already what is compared", "keep one of the two"))
    if not entries:
        said.value.note(Refused("expected path and equals, or schema, found none of them", "write which records"))
    if "not" in given:
        given |= {"equals": given.pop("not"), "negated": True}
    is_whole = "equals" in given and given.keys() & {"path", "header"}
    where = (said.make(FieldCondition, path=given.get("path", ())),) if is_whole else ()
    return Attributes(where=where, schemas=schemas)


def _where(value: Value) -> Attributes:
    items = value.items() if isinstance(value.node, yaml.SequenceNode) else [value]
    if not items:
        raise Refused("expected conditions, found an empty list", "write which records, or drop the key")
    conditions, schemas = list[FieldCondition](), tuple[str, ...]()
    for item in items:
        for said in read_or_note(CONDITION, item):
            if schemas and said["schemas"]:
                wrong, right = "an earlier condition names schemas already", "write one list of them"
                (item.at("schema") or item).note(Refused(wrong, right))
            conditions += said["where"]
            schemas = schemas or said["schemas"]
    return Attributes(where=tuple(conditions), schemas=schemas)


def _publish_at(said: Section) -> Attributes:
    if not said.entries.keys() & {"path", "header"}:
        note_missing(said.value, PUBLISH_AT.schema, "path")
    if "header" in said.entries:
        wrong = {"path": "header says already where the moment is", "aliases": "a header has no aliases"}
        for name in wrong.keys() & said.entries.keys():
            said.entries[name].note(Refused(wrong[name], "drop it"))
    return Attributes({"publish_at": None, **said.given})


EVENT_ID: Kind[Attributes] = section(
    RecordShape,
    "An event id that stood elsewhere before.",
    {
        "path": Key(PATH, "Where the event id is.", ("$.event_id",), attribute="event_id"),
        "aliases": replace(ALIASES_KEY, attribute="event_id_aliases"),
    },
    ("path",),
    lambda said: Attributes(said.given),
)

_EITHER_PLACE = {"oneOf": [{"required": ["path"]}, {"required": ["header"]}]}

PUBLISH_AT: Kind[Attributes] = section(
    RecordShape,
    "A moment that is in a header, that is not written as RFC 3339, or that stood elsewhere before.",
    {
        "path": Key(PATH, "Where the moment is.", ("$.ts",), attribute="publish_at"),
        "header": Key(
            filled_text(),
            "The Kafka header with the moment, as text; the last one of the name counts.",
            ("ce_time",),
            attribute="publish_at_header",
        ),
        "encoding": Key(
            word(*ENCODINGS["timestamptz"]), "How it is written.", ("epoch_ms",), attribute="publish_at_encoding"
        ),
        "aliases": replace(ALIASES_KEY, attribute="publish_at_aliases"),
        "round": Key(FLAG, "Whether it is rounded to microseconds.", (True,), attribute="publish_at_round"),
    },
    make=_publish_at,
    also={
        **_EITHER_PLACE,
        "dependentSchemas": {"aliases": {"required": ["path"]}},
    },
)

DELETE_WHEN: Kind[FieldCondition | None] = section(
    FieldCondition,
    "A record that deletes its event, by what it says itself.",
    {
        "path": Key(PATH, "Where the value is; a record without it deletes nothing.", ("$.op",)),
        "equals": _compared("The value of a delete", "d"),
    },
    ("path", "equals"),
    lambda said: said.make(FieldCondition) if said.given.keys() >= {"path", "equals"} else None,
)

_EITHER_VALUE = {"oneOf": [{"required": ["equals"]}, {"required": ["not"]}]}
CONDITION: Kind[Attributes] = section(
    FieldCondition,
    "What is true of the pipeline's records.",
    {
        "path": Key(PATH, "Where the value is.", ("$.type",)),
        "header": Key(
            filled_text(), "The Kafka header with the value, as text; the last one of the name counts.", ("ce_type",)
        ),
        "equals": _compared("The value", "order"),
        "not": _compared("A value that is not there; a record without any is the pipeline's", "heartbeat"),
        "schema": Key(
            one_or_more(filled_text(), "the full name of a schema", "write shop.Order, or [shop.Order, shop.Refund]"),
            "The full name of their schema, or several: of the Avro record or the Protobuf message, or a JSON Schema's "
            "title or $id. Needs source.registry.",
            ("shop.Order", ["shop.Order", "shop.Refund"]),
        ),
    },
    make=_condition,
    also={
        "anyOf": [_EITHER_PLACE, {"required": ["schema"]}],
        "dependentSchemas": {
            **dict.fromkeys(("path", "header"), _EITHER_VALUE),
            **dict.fromkeys(("equals", "not"), _EITHER_PLACE),
        },
    },
)

WHERE: Kind[Attributes] = Kind(
    _where,
    {
        "description": "Which records of the topic are the pipeline's, where it has several kinds; the others are "
        "skipped and counted. Of a list all have to be true.",
        "anyOf": [CONDITION.schema, {"type": "array", "minItems": 1, "items": CONDITION.schema}],
        "examples": [
            {"path": "$.type", "equals": "order"},
            {"header": "ce_type", "equals": "shop.order"},
            [{"path": "$.type", "not": "test"}, {"path": "$.type", "not": "heartbeat"}],
            {"schema": "shop.Order"},
        ],
    },
)

RECORD: Kind[RecordShape] = section(
    RecordShape,
    "How a record becomes a row.",
    {
        "event_id": Key(
            _path_or("key", EVENT_ID),
            "What identifies the event: a path to a text or an integer, or key for the Kafka key; none with merge: "
            "append.",
            ("$.event_id", "key", {"path": "$.event_id", "aliases": ["$.id"]}),
        ),
        "key": Key(
            KEY_COLUMNS,
            "The columns by which a row is known, instead of event_id: a primary key or unique index of the table.",
            ({"order_id": "bigint", "tenant": "uuid"},),
        ),
        "publish_at": Key(
            _path_or(
                "kafka_timestamp",
                PUBLISH_AT,
                {"log": Attributes(publish_at=None, log_orders=True)},
            ),
            "When the event was published; of two records of one event the later one is newer. With log it is Kafka's "
            "timestamp, and of two records in one partition that with the greater offset is newer. With merge: "
            "append it is kafka_timestamp where absent.",
            ("$.publish_at", "kafka_timestamp", "log", {"path": "$.ts", "encoding": "epoch_ms"}),
        ),
        "tombstone": Key(
            choice(Tombstone),
            "What a record with a null value means; delete needs event_id: key and publish_at: kafka_timestamp or log.",
        ),
        "delete_when": DELETE_WHEN,
        "where": WHERE,
        "columns": COLUMNS,
        "rest": Key(FLAG, "Whether the column _rest takes, as jsonb, all that no other column reads.", (True,)),
    },
    ("event_id", "publish_at", "columns"),
    _record,
    also={
        "required": ["columns"],
        "if": {"properties": {"tombstone": {"const": "delete"}}, "required": ["tombstone"]},
        "then": {
            "properties": {
                "event_id": {"const": "key"},
                "publish_at": {"anyOf": [{"enum": ["kafka_timestamp", "log"]}, {"required": ["header"]}]},
            }
        },
    },
)
