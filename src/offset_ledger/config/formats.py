"""How the records of a topic are encoded, and where their schemas come from: keys of the section ``source``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from offset_ledger.config.document import Value
from offset_ledger.config.keys import Key, Kind, Section
from offset_ledger.config.located import Refused, quoted
from offset_ledger.config.source import Format, KeyFormat, SchemaFile, Source, SubjectStrategy
from offset_ledger.config.values import CONNECTION, choice, matching, text

MAX_SCHEMA_BYTES = 4 * 1024 * 1024
_WITH_SCHEMA = f"a format with a schema: {', '.join(each for each in Format if each is not Format.JSON)}"
_MESSAGE = matching(
    r"^[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*$", "the full name of a message", "write package.Message"
)


def _schema(value: Value) -> SchemaFile:
    """The file, which stands beside the pipeline file or is given from there."""
    given = text(value)
    folder = value.mistakes.file.parent
    # A driver on a cluster has its copies of both files in one folder.
    paths = [path for path in (folder / given, folder / Path(given).name) if path.is_file()]
    if not paths:
        raise Refused(f"there is no file {quoted(given)} beside the pipeline file", "write its path from there on")
    try:
        data = paths[0].read_bytes()
        if len(data) > MAX_SCHEMA_BYTES:
            raise Refused(f"{quoted(given)} has {len(data)} bytes", f"a schema has at most {MAX_SCHEMA_BYTES}")
        return SchemaFile(paths[0].name, data.decode())
    except OSError as error:
        raise Refused(f"{quoted(given)} cannot be read: {error.strerror}", "give a readable file") from None
    except UnicodeDecodeError:
        raise Refused(f"{quoted(given)} is not UTF-8", "write the text of a schema: .avsc, .proto or .json") from None


FORMAT_KEYS: Mapping[str, Key | Kind[object]] = {
    "format": Key(choice(Format), "How record values are encoded."),
    "registry": Key(
        CONNECTION,
        "The schema registry that has the schemas of the records: the id of an Airflow connection. The records are in "
        "Confluent's wire format.",
        ("registry_default",),
    ),
    "subject": Key(
        choice(SubjectStrategy),
        "Which subjects the schemas are registered under: topic (<topic>-value), record (the full name of the record), "
        "topic_record (<topic>-<full name>), or any. A record with a schema of another subject is quarantined.",
    ),
    "schema": Key(
        Kind(_schema, {"type": "string", "minLength": 1}),
        "The file with the schema of records that do not name theirs, from the folder of the pipeline file on.",
        ("flights.avsc",),
    ),
    "message": Key(_MESSAGE, "The full name of the Protobuf message in the schema file.", ("flights.Departure",)),
    "key_format": Key(
        choice(KeyFormat), "How record keys are encoded, where event_id is the key; all but text need the registry."
    ),
}


def check_format(said: Section, source: Source) -> None:
    """Note what the keys of a format cannot say together."""
    for key in ("registry", "schema"):
        if key in said.entries and source.format is Format.JSON:
            wrong = "json has no schema"
            said.entries[key].note(Refused(wrong, f"drop {key}, or write {_WITH_SCHEMA}"))
    if source.format not in (Format.JSON, None) and not {"registry", "schema"} & said.entries.keys():
        wrong = f"records in {source.format} need a schema"
        said.entries["format"].note(Refused(wrong, "add registry: <connection>, or schema: <file>"))
    if {"registry", "schema"} <= said.entries.keys():
        said.entries["schema"].note(
            Refused("with a registry each record names its schema", "drop schema, or drop registry")
        )
    _check_registry(said, source)
    _check_message(said, source)


def _check_registry(said: Section, source: Source) -> None:
    if "subject" in said.entries and "registry" not in said.entries:
        said.entries["subject"].note(Refused("without a registry there are no subjects", "drop it, or add registry"))
    if source.key_format is not KeyFormat.TEXT and "registry" not in said.entries and "key_format" in said.entries:
        wrong = f"keys in {source.key_format} name a schema, and there is no registry"
        said.entries["key_format"].note(Refused(wrong, "add registry, or write text"))


def _check_message(said: Section, source: Source) -> None:
    plain = source.format is Format.PROTOBUF and "schema" in said.entries
    if "message" in said.entries and not plain:
        right = "drop it: only a Protobuf schema file needs one"
        said.entries["message"].note(Refused("the record itself names its message", right))
    if plain and "message" not in said.entries:
        wrong = "a Protobuf file may have several messages"
        said.entries["schema"].note(Refused(wrong, "add message: <full name of the one in the topic>"))
