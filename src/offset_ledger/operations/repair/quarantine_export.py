"""Export: quarantined records with their exact bytes, a line for each, as JSON or CSV."""

import json
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import fetched_by_parts, open_ledger
from offset_ledger.postgres.ledger.redrive import RedriveChoice

FIELDS = (
    *("topic_id", "partition", "offset", "timestamp_ms", "key", "key_base64", "value", "value_base64", "headers"),
    *("reasons", "batch_id", "schema_id", "quarantined_at", "resolved_by", "dismissed_by"),
)
_FETCH_SIZE = 100  # a record may have a megabyte


def export_lines(
    pipeline: Pipeline, choice: RedriveChoice, resolved: bool, dismissed: bool, as_csv: bool
) -> Iterator[str]:
    """Yield the header of a CSV file, and a line for each record, newest first, while they are read from the ledger.

    Bytes that are no text, because they are not UTF-8 or contain NUL, are in base64 in a field of their own.
    """
    wanted = {"pipeline": pipeline.name, "reason": choice.reason, "since": choice.since, "limit": None}
    with open_ledger(pipeline) as session, fetched_by_parts(session, "export") as cursor:
        cursor.itersize = _FETCH_SIZE
        cursor.run("repair/quarantined_records", **wanted, resolved=resolved, dismissed=dismissed)
        if as_csv:
            yield ",".join(FIELDS)
        for row in cursor:
            record = _record(row)
            yield ",".join(map(_cell, record.values())) if as_csv else json.dumps(record)


def _record(row: Any) -> dict[str, Any]:
    record = dict(row) | {"timestamp_ms": row["timestamp"], "quarantined_at": row["quarantined_at"].isoformat()}
    record["headers"] = row["headers"] and json.loads(row["headers"])
    for name in ("key", "value"):
        raw = None if row[name] is None else bytes(row[name])
        try:
            text = None if raw is None or b"\0" in raw else raw.decode()
        except UnicodeDecodeError:
            text = None
        record |= {name: text, f"{name}_base64": b64encode(raw).decode() if raw and text is None else None}
    return {name: record[name] for name in FIELDS}


def _cell(value: Any) -> str:
    """Return the value as Postgres's COPY writes it: NULL is nothing, an empty text "". Python's csv merges both."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if isinstance(value, int) else '"{}"'.format(text.replace('"', '""'))
