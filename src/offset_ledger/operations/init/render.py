"""The text of a pipeline file, with a comment for each thing that was unsure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import inf

import yaml

from offset_ledger.config.json_path import format_path
from offset_ledger.config.model import Column, JsonPath, RecordShape, Tombstone
from offset_ledger.config.source import Format, KeyFormat, Source, SubjectStrategy
from offset_ledger.decoding.inferred import Proposed
from offset_ledger.decoding.outcome import printable
from offset_ledger.operations.init.events import Choice

_LONG = 400
_PLAIN = re.compile(r"[A-Za-z$][A-Za-z0-9_.$-]*")
_WORDS = ("true", "false", "null", "yes", "no", "on", "off", "y", "n")


def render(
    name: str,
    head: Sequence[str],
    source: Source,
    record: RecordShape,
    proposed: Sequence[Proposed],
    choices: tuple[Choice, Choice],
    table: str,
    suite: str | None,
) -> str:
    """The file; ``head`` are the comments above it, ``choices`` the reasons for event_id and publish_at."""
    lines = [*(_comment(each) for each in head), f"pipeline: {_scalar(name)}", "", *_source(source), ""]
    lines += ["record:", *_record(record, choices), "  columns:", *_columns(proposed), ""]
    lines += ["target:", "  connection: postgres_default", f"  table: {_scalar(table)}"]
    lines += ["", "quality:", f"  suite: {_scalar(suite)}"] if suite else []
    return "\n".join(lines) + "\n"


def _source(source: Source) -> Iterator[str]:
    yield "source:"
    yield f"  connection: {_scalar(source.connection)}"
    yield f"  topic: {_scalar(source.topic)}"
    if source.transactional:
        yield _comment(
            "offsets without a record, by transactions; write compacted: true if the topic was compacted earlier", 2
        )
        yield "  transactional: true"
    if source.format is not Format.JSON:
        yield f"  format: {source.format}"
    if source.registry:
        yield f"  registry: {_scalar(source.registry)}"
    if source.subject is not SubjectStrategy.TOPIC:
        yield f"  subject: {source.subject}"
    if source.key_format is not KeyFormat.TEXT:
        yield f"  key_format: {source.key_format}"


def _record(record: RecordShape, choices: tuple[Choice, Choice]) -> Iterator[str]:
    event_id, publish_at = choices
    yield _comment(event_id.why, 2)
    yield f"  event_id: {_place(record.event_id, record.event_id_aliases, 'key')}"
    yield _comment(publish_at.why, 2)
    yield f"  publish_at: {_place(record.publish_at, record.publish_at_aliases, 'kafka_timestamp')}"
    if record.tombstone is not Tombstone.QUARANTINE:
        yield f"  tombstone: {record.tombstone}"
    if record.schemas:
        (schema,) = record.schemas
        yield f"  where: {{schema: {_scalar(schema)}}}"


def _columns(proposed: Sequence[Proposed]) -> Iterator[str]:
    for each in proposed:
        if each.doubt:
            yield _comment(each.doubt, 4)
        yield f"    {_scalar(each.column.name)}: {_column(each.column)}"


def _column(column: Column) -> str:
    arguments = f"({','.join(map(str, column.type.args))})" if column.type.args else ""
    type_ = f"{column.type.name}{arguments}"
    parts = [f"type: {_scalar(type_)}" if " " not in type_ else f"type: {type_}"]
    parts += [f"path: {_path(column.path, '')}"] if column.path != (column.name,) else []
    parts += _aliases(column.aliases)
    parts += ["nullable: true"] if column.nullable else []
    return type_ if len(parts) == 1 else f"{{{', '.join(parts)}}}"


def _place(path: JsonPath | None, aliases: tuple[JsonPath, ...], otherwise: str) -> str:
    parts = [f"path: {_path(path, otherwise)}", *_aliases(aliases)]
    return f"{{{', '.join(parts)}}}" if aliases else _path(path, otherwise)


def _aliases(aliases: tuple[JsonPath, ...]) -> list[str]:
    return [f"aliases: [{', '.join(_path(alias, '') for alias in aliases)}]"] if aliases else []


def _path(path: JsonPath | None, otherwise: str) -> str:
    return otherwise if path is None else _scalar(format_path(path))


def _comment(text: str, indent: int = 0) -> str:
    return f"{' ' * indent}# {printable(' '.join(text.split()), _LONG)}"


def _scalar(text: str) -> str:
    """The text as YAML reads it back, in quotes where it may have to be."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    flow = yaml.safe_dump([text], default_style='"', allow_unicode=text.isprintable(), width=inf)
    return str(flow).strip()[2:]
