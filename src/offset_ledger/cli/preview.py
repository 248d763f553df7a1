"""``preview``: some records of the topic, decoded; nothing is written."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from base64 import b64encode
from typing import TYPE_CHECKING, Any

from offset_ledger.cli.fitting import cut, fitting, shown_bytes
from offset_ledger.cli.verbs import Outcome, Verbs, from_1, pipeline_of
from offset_ledger.model.moments import parse_since
from offset_ledger.units import counted

if TYPE_CHECKING:
    from offset_ledger.operations.decode_sample import Sample, SampleRefusal, SampleRow


def add_verb(verbs: Verbs) -> None:
    """Add it to the command line."""
    summary = "decode some records of the topic, the next ones for example; nothing is written"
    verb = verbs.add_for_pipeline(
        "preview", summary, run, example="offset-ledger preview flights --since 2026-01-31T00:00Z --refused"
    )
    verb.add_argument("--records", type=_records, default=10, help="how many (10)")
    verb.add_argument("--partition", type=int, help="only records of this partition")
    where = verb.add_mutually_exclusive_group()
    where.add_argument("--from-offset", type=int, help="first offset in --partition, instead of the next one")
    where.add_argument("--since", help="first record timestamp, ISO 8601 with zone, instead of the next records")
    verb.add_argument("--refused", action="store_true", help="show only what would go to quarantine")


def run(arguments: Namespace) -> Outcome:
    """Decode some records."""
    from offset_ledger.operations.decode_sample import decode_sample
    from offset_ledger.operations.sample_start import Choice

    choice = Choice(arguments.partition, arguments.from_offset, parse_since(arguments.since))
    pipeline = pipeline_of(arguments)
    sample = decode_sample(pipeline, choice, arguments.records)
    rows = () if arguments.refused else sample.rows
    data = {
        "pipeline": pipeline.name,
        "topic": pipeline.source.topic,
        "note": sample.start.note,
        "from": {partition: first for partition, (first, _) in sample.start.ranges.items()},
        "records": sample.records,
        "skipped": sample.skipped,
        "rows": [_row_data(row) for row in rows],
        "refusals": [_refusal_data(refusal) for refusal in sample.refusals],
    }
    return Outcome(data, _text(sample, rows))


def _records(text: str) -> int:
    from offset_ledger.operations.decode_sample import MAX_RECORDS

    if (count := from_1(text)) > MAX_RECORDS:
        raise ArgumentTypeError(f"should be at most {MAX_RECORDS}, found {count}")
    return count


def _row_data(row: SampleRow) -> dict[str, Any]:
    return {
        "partition": row.partition,
        "offset": row.offset,
        "event_id": row.event_id,
        "publish_at": _exact(row.publish_at),
        "schema_id": row.schema_id,
        "deleted": row.deleted,
        "columns": {name: _exact(value) for name, value in row.values.items()},
    }


def _refusal_data(refusal: SampleRefusal) -> dict[str, Any]:
    return {
        "partition": refusal.partition,
        "offset": refusal.offset,
        "schema_id": refusal.schema_id,
        "reasons": list(refusal.reasons),
        "value_base64": None if refusal.value is None else b64encode(refusal.value).decode(),
    }


def _exact(value: Any) -> Any:
    """The value for --json, bytes as Postgres prints them."""
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    return value.isoformat() if hasattr(value, "isoformat") else value


def _text(sample: Sample, rows: tuple[SampleRow, ...]) -> str:
    rest = f"{len(sample.refusals)} refused, {sample.skipped} skipped; nothing was written"
    counts = f"{counted(len(sample.rows), 'row')}, {rest}"
    lines = [sample.start.note, fitting([_row_cells(row) for row in rows]) if rows else ""]
    if sample.refusals:
        lines.append(fitting([cells for refusal in sample.refusals for cells in _refusal_cells(refusal)]))
    if not sample.records:
        lines.append("no records from there on")
    return "\n\n".join([*filter(None, lines), counts])


def _row_cells(row: SampleRow) -> dict[str, str]:
    place = {"partition": row.partition, "offset": row.offset, "event_id": row.event_id, "publish_at": row.publish_at}
    schema = {} if row.schema_id is None else {"schema": row.schema_id}
    deleted = {"deleted": True} if row.deleted else {}
    return {name: cut(_exact(value)) for name, value in (place | schema | deleted | dict(row.values)).items()}


def _refusal_cells(refusal: SampleRefusal) -> list[dict[str, str]]:
    """One line for each reason."""
    place = {"partition": str(refusal.partition), "offset": str(refusal.offset)}
    value = shown_bytes(refusal.value)
    return [
        {**place, **{name: cut(reason[name], 100) for name in ("path", "code", "detail")}, "value": value}
        for reason in refusal.reasons
    ]
