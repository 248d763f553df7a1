"""Results for people: tables, and the outcome of a batch."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from offset_ledger.base.progress import clear
from offset_ledger.base.units import counted
from offset_ledger.model.balance_sheet import Dispositions

if TYPE_CHECKING:
    from offset_ledger.steps.run.ingest import Ingested


def show(text: str) -> None:
    """Print a result. A reader that closes the pipe early, as ``head`` does, is no failure of the verb."""
    clear()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal of another encoding
    try:
        print(text, flush=True)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python reports it once more at its end
        if not isinstance(error, BrokenPipeError):
            sys.exit(f"offset-ledger: the result cannot be written ({error.strerror}); give it another place")


_COUNTS = (*Dispositions.__dataclass_fields__, "in_redrive")


def table(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows under their columns, moments in UTC to the second; counts that are zero in every row are left out."""
    from tabulate import tabulate

    rows = list(rows)
    counts = [name for name in _COUNTS if not any(row.get(name) for row in rows)]

    def cell(value: Any) -> Any:
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z" if isinstance(value, datetime) else value

    shown = [{name: cell(value) for name, value in row.items() if name not in counts} for row in rows]
    return tabulate(shown, headers="keys")


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
