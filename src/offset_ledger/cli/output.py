"""Results as people read them: tables, and what became of a batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from offset_ledger.units import counted

if TYPE_CHECKING:
    from offset_ledger.run.ingest import Ingested


def table(rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows under the names of their columns, moments in UTC to the second."""
    from tabulate import tabulate

    def cell(value: Any) -> Any:
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z" if isinstance(value, datetime) else value

    return tabulate([{name: cell(value) for name, value in row.items()} for row in rows], headers="keys")


def batch_data(ingested: Ingested) -> dict[str, Any]:
    """One committed batch for --json."""
    committed = ingested.committed
    batch = committed.batch
    return {
        "batch_id": batch.batch_id,
        "pipeline": batch.pipeline,
        "kind": batch.kind,
        "state": batch.state,
        "engine": batch.engine,
        "counts": asdict(committed.total),
        "partitions": {p: asdict(line) for p, line in committed.sheet.items()},
        "seconds": {step: round(s, 3) for step, s in ingested.seconds.items()},
    }


def batch_line(ingested: Ingested) -> str:
    """One committed batch for people."""
    total = ingested.committed.total
    counts = ", ".join(f"{n:,} {name}" for name, n in asdict(total).items() if n)
    seconds = ", ".join(f"{step} {s:.1f} s" for step, s in ingested.seconds.items())
    batch_id, already = ingested.committed.batch.batch_id, ingested.committed.already
    done = f"batch {batch_id} was committed by a concurrent attempt" if already else f"committed batch {batch_id}"
    return f"{done}: {counted(total.total, 'offset')}: {counts} ({seconds})"
