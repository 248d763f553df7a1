"""Quarantined records for the page: pages by key, and only the shown part of each record."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from psycopg2.sql import SQL

from offset_ledger.decoding.headers import kafka_headers
from offset_ledger.interfaces.page.rights import Rights
from offset_ledger.model.batch import Attempt
from offset_ledger.model.states import State
from offset_ledger.operations.status.pipeline import LedgerRow
from offset_ledger.operations.status.reader import read_rows, reading
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger import batches, staging
from offset_ledger.postgres.ledger.database import Cursor, named_sql
from offset_ledger.postgres.ledger.staging import StagingTables

NEWEST = 2**63 - 1  # the greatest id
FIRST_REFUSED = 5
SHOWN_BYTES = 64 * 1024  # of a key or a value that is text
_HEX_BYTES = 4 * 1024
_WHOLE_BYTES = 16 * 1024**2  # that a browser can show
_HEADERS = 50
_HEADER_BYTES = 1024
_LINE = 16
_TEXT_CONTROLS = frozenset("\t\n\r")


class RecordState(StrEnum):
    """The fate of a quarantined record."""

    UNRESOLVED = "unresolved"
    DISMISSED = "dismissed"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """The newest ``limit`` records before one of a batch, in this state, that match what is not None."""

    before_batch: int = NEWEST
    before_id: int = NEWEST
    limit: int = 50
    state: RecordState = RecordState.UNRESOLVED
    reason: str | None = None
    partition: int | None = None
    since: datetime | None = None
    until: datetime | None = None


def first_refused(
    cursor: Cursor, attempt: Attempt, place: tuple[int | None, int | None] = (None, None), shown: int = SHOWN_BYTES
) -> list[LedgerRow]:
    """Return some of the records that an open batch refused, or the one at a place; none once staging is dropped."""
    tables = StagingTables(attempt)
    if not staging.are_there(cursor, tables):
        return []
    query = SQL(named_sql("page/refused")).format(refused=tables.identifier(tables.refused))
    cursor.execute(query, {"shown": shown, "limit": FIRST_REFUSED, "partition": place[0], "offset": place[1]})
    return [dict(row) for row in cursor.fetchall()]


JsonObject = dict[str, Any]

_PLACE = ("partition", "offset", "timestamp")
_LISTED = (
    "quarantine_id",
    "batch_id",
    *_PLACE,
    "quarantined_at",
    "retried_by",
    "resolved_by",
    "key_bytes",
    "value_bytes",
)
_WHOLE = (*_LISTED, "topic_id", "schema_id", "dismissed_by", "dismissed_at", "dismissed_who", "dismissed_why")


def quarantine(pipeline: Pipeline, matching: RecordFilter, rights: Rights) -> JsonObject:
    """A page of records, and after which batch and record the next one starts."""
    readable = rights.reads_values(pipeline.name)
    with reading(pipeline.target.connection) as cursor:
        filters = asdict(matching) | {"limit": matching.limit + 1}
        rows = read_rows(cursor, "page/quarantined_records", pipeline=pipeline.name, **filters)
    shown = rows[: matching.limit]
    more = len(rows) > len(shown)
    return {
        "records": [
            {**{name: row[name] for name in _LISTED}, "reasons": reasons(row["reasons"], readable)} for row in shown
        ],
        "before": f"{shown[-1]['batch_id']}:{shown[-1]['quarantine_id']}" if more else None,
        "masked": not readable,
    }


def quarantined_record(
    pipeline: Pipeline, quarantine_id: int, rights: Rights, whole: bool = False
) -> JsonObject | None:
    """Return one record: its bytes, headers and reasons if the user may read them; None if the pipeline has none.

    Of key and value it has the first bytes, or up to 16 MiB of the ``whole``.
    """
    readable = rights.reads_values(pipeline.name)
    with reading(pipeline.target.connection) as cursor:
        wanted = {"pipeline": pipeline.name, "quarantine_id": quarantine_id}
        wanted["shown"] = _WHOLE_BYTES if whole else SHOWN_BYTES
        rows = read_rows(cursor, "page/quarantined_record", **wanted)
    if not rows:
        return None
    (row,) = rows
    state = RecordState.UNRESOLVED if row["dismissed_by"] is None else RecordState.DISMISSED
    return {
        **{name: row[name] for name in _WHOLE},
        **_content(row, readable, _WHOLE_BYTES if whole else _HEX_BYTES),
        "state": state if row["resolved_by"] is None else RecordState.RESOLVED,
        "retried_reasons": reasons(row["retried_reasons"], readable),
        "headers": headers(kafka_headers(row["headers"]), readable),
        "header_count": len(row["headers"] or ()),
        "masked": not readable,
    }


def whole_refused(pipeline: Pipeline, partition: int, offset: int, rights: Rights) -> JsonObject | None:
    """Return a record that the rejected batch refused, up to 16 MiB of its key and value; None if there is none."""
    with reading(pipeline.target.connection) as cursor:
        head = batches.open_head(cursor, pipeline.name)
        if head is None or head.state is not State.REJECTED:
            return None
        rows = first_refused(cursor, head.attempt, (partition, offset), _WHOLE_BYTES)
    return next((refused_record(row, rights.reads_values(pipeline.name), _WHOLE_BYTES) for row in rows), None)


def refused_record(row: Mapping[str, Any], readable: bool, as_hex: int = _HEX_BYTES) -> JsonObject:
    """A record that an open batch refused."""
    return {**{name: row[name] for name in _PLACE}, **_content(row, readable, as_hex)}


def _content(row: Mapping[str, Any], readable: bool, as_hex: int = _HEX_BYTES) -> JsonObject:
    key, value = (show_bytes(row[name], row[f"{name}_bytes"], readable, as_hex) for name in ("key", "value"))
    return {"key": key and asdict(key), "value": value and asdict(value), "reasons": reasons(row["reasons"], readable)}


# -- bytes -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShownBytes:
    """The first ``shown`` of ``size`` bytes, as ``text`` or as lines of ``hex``; no text where it is masked."""

    size: int
    shown: int = 0
    form: str = "masked"
    text: str | None = None


def show_bytes(
    first: bytes | memoryview | None, size: int | None, readable: bool, as_hex: int = _HEX_BYTES
) -> ShownBytes | None:
    """Return bytes that begin with ``first`` as shown, at most ``as_hex`` of them as hex; None for null."""
    if size is None or first is None:
        return None
    if not readable:
        return ShownBytes(size)
    content = bytes(first)
    text = _text(content, cut_off=len(content) < size)
    if text is not None:
        return ShownBytes(size, len(text.encode()), "text", text)
    lines = []
    for at in range(0, min(len(content), as_hex), _LINE):
        line = content[at : at + _LINE]
        plain = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in line)
        lines.append(f"{at:06x}  {line.hex(' '):<47}  {plain}")
    return ShownBytes(size, min(len(content), as_hex), "hex", "\n".join(lines))


def _text(content: bytes, cut_off: bool) -> str | None:
    """Return the bytes as UTF-8 without control characters; a character cut in two at the end is left out."""
    for dropped in range(4 if cut_off else 1):
        try:
            text = content[: len(content) - dropped].decode()
        except UnicodeDecodeError:
            continue
        return text if all(each.isprintable() or each in _TEXT_CONTROLS for each in text) else None
    return None


def reasons(record_reasons: Sequence[Mapping[str, Any]] | None, readable: bool) -> list[dict[str, Any]]:
    """Return code and path of each reason, and for readers of values the detail, which may quote the value."""
    names = ("code", "path", "detail") if readable else ("code", "path")
    return [{name: reason.get(name) for name in names} for reason in record_reasons or ()]


def headers(record_headers: Sequence[tuple[str, bytes | None]], readable: bool) -> list[dict[str, Any]]:
    r"""Return names and values of the first headers; a byte of a name that is not UTF-8 is shown as ``\xe9``."""
    listed = []
    for name, value in record_headers[:_HEADERS]:
        shown = show_bytes(value and value[:_HEADER_BYTES], None if value is None else len(value), readable)
        text = name.encode().decode(errors="backslashreplace")
        listed.append({"name": text, "value": asdict(shown) if shown else None})
    return listed
