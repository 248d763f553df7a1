"""The text of a proposed pipeline file: YAML, with a comment for each doubt."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Any

import yaml

from offset_ledger.decoding.inferred import Proposed
from offset_ledger.decoding.outcome import printable
from offset_ledger.pipeline_file.column_types import encodings_of
from offset_ledger.pipeline_file.json_path import format_path
from offset_ledger.pipeline_file.pipeline import Column, JsonPath, RecordShape, Tombstone, spelled
from offset_ledger.pipeline_file.source import Source

_LONG = 400
_PLAIN = re.compile(r"[A-Za-z$][A-Za-z0-9_.$-]*|double precision|unscaled\([0-9]+\)")
_WORDS = ("true", "false", "null", "yes", "no", "on", "off", "y", "n")
_SOURCE = ("connection", "topic", "envelope", "format", "registry", "subject", "unavailable", "key_format")
"""The keys of source that a proposal may have, in their order; those with a default only where it differs."""


def render(
    name: str,
    head: Sequence[str],
    source: Source,
    record: RecordShape,
    proposed: Sequence[Proposed],
    reasons: tuple[str, str],
    table: str,
    suite: str | None,
    beside: bool,
) -> str:
    """Return the file; ``head`` are the comments above it, ``reasons`` those for event_id, or key, and publish_at."""
    source_keys = {key: value for key in _SOURCE if (value := getattr(source, key)) != getattr(Source(), key)}
    target = {"connection": "postgres_default", "table": table, "bookkeeping": "beside" if beside else None}
    lines = [*map(_comment, head), f"pipeline: {_flow(name)}", "", "source:"]
    lines += [*_entries({"connection": source.connection, "topic": source.topic, **source_keys}), ""]
    lines += ["record:", *_record(record, *reasons), "  columns:" if proposed else "  columns: {}"]
    for each in proposed:
        lines += [_comment(each.doubt, 4)] if each.doubt else []
        lines.append(_column(each.column))
    lines += ["", "target:", *_entries(target)]
    lines += ["", "quality:", *_entries({"suite": suite})] if suite else []
    return "\n".join(lines) + "\n"


def _record(record: RecordShape, why_key: str, why_publish_at: str) -> Iterator[str]:
    yield _comment(why_key, 2)
    if record.key:
        yield "  key:"
        yield from map(_column, record.key)
    else:
        yield from _entries({"event_id": _place(record.event_id, record.event_id_aliases, "key")})
    yield _comment(why_publish_at, 2)
    otherwise = "log" if record.log_orders else "kafka_timestamp"
    deletes = record.delete_when
    yield from _entries(
        {
            "publish_at": _place(record.publish_at, record.publish_at_aliases, otherwise),
            "tombstone": None if record.tombstone is Tombstone.QUARANTINE else record.tombstone,
            "delete_when": deletes and {"path": format_path(deletes.path), "equals": deletes.equals},
            "where": {"schema": record.schemas[0]} if record.schemas else None,
        }
    )


def _column(column: Column) -> str:
    """The line of a column: its type alone, or a mapping where that does not say all."""
    place = {} if column.path == (column.name,) else {"path": format_path(column.path)}
    type_ = spelled(column.type.name, column.type.args)
    said = {
        "type": type_,
        **(place if column.key is None else {"key": format_path(column.key)}),
        "aliases": [*map(format_path, column.aliases)],
        "nullable": column.nullable,
        "absent": "keep" if column.group else None,
        "encoding": None if column.encoding == encodings_of(column.type.name)[0] else column.encoding,
        "coerce": column.coerce,
    }
    given = {key: value for key, value in said.items() if value}
    return f"    {_flow(column.name)}: {_flow(given) if len(given) > 1 else type_}"


def _place(path: JsonPath | None, aliases: Sequence[JsonPath], otherwise: str) -> str | dict[str, Any]:
    where = otherwise if path is None else format_path(path)
    return {"path": where, "aliases": [*map(format_path, aliases)]} if aliases else where


def _entries(said: Mapping[str, Any]) -> Iterator[str]:
    """A line for each key that has a value."""
    return (f"  {key}: {_flow(value)}" for key, value in said.items() if value is not None)


def _flow(value: Any) -> str:
    """The value as YAML reads it back, on one line; a text is in quotes where it may have to be."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_flow(key)}: {_flow(each)}' for key, each in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_flow, value))}]"
    if not isinstance(value, str):
        return json.dumps(value)
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return str(value)
    if '"' in value and "'" not in value and value.isprintable():  # as a name in SQL
        return f"'{value}'"
    quoted = yaml.safe_dump([value], default_style='"', allow_unicode=value.isprintable(), width=inf)
    return str(quoted).strip()[2:]


def _comment(text: str, indent: int = 0) -> str:
    return f"{' ' * indent}# {printable(' '.join(text.split()), _LONG)}"
