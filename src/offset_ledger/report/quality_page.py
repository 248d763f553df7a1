"""Data Docs: one self-contained page for each batch, from its stored results.

Great Expectations' own pages load scripts, fonts and a logo from public hosts; these load nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.unread import Unread
from offset_ledger.report.render import pipeline_folder, render, write

HISTORY = 200  # pages of a pipeline


@dataclass(frozen=True, slots=True)
class BatchResults:
    """What the page of one batch shows.

    ``verdict`` is a GateVerdict as the ledger keeps it: JSON, with Great Expectations' own result. ``refusals`` counts
    the refused records by reason code, ``unread`` has the fields that nothing reads, ``boundaries`` the schemas that
    needed other columns, and ``decisions`` are what people decided about the batch, with who, at and why. ``engine``
    staged it for ``engine_reason``; both are None of a batch that an earlier release staged.
    """

    pipeline: str
    batch_id: int
    kind: str
    validated_at: datetime
    verdict: Mapping[str, Any]
    ranges: Sequence[OffsetRange] = ()
    refusals: Mapping[str, int] = field(default_factory=dict)
    decisions: Sequence[Mapping[str, str]] = ()
    unread: Unread | None = None
    boundaries: Sequence[str] = ()
    engine: str | None = None
    engine_reason: str | None = None

    def to_json(self) -> str:
        """The stored form; every page is rendered from it."""
        fields = {
            "pipeline": self.pipeline,
            "batch_id": self.batch_id,
            "kind": self.kind,
            "engine": self.engine,
            "engine_reason": self.engine_reason,
            "judged_at": self.validated_at.isoformat(timespec="seconds"),
            "ranges": [asdict(each) for each in self.ranges],
            "refusals": dict(self.refusals),
            "decisions": [dict(each) for each in self.decisions],
            "unread": self.unread and self.unread.to_json(),
            "boundaries": list(self.boundaries),
            "verdict": dict(self.verdict),
        }
        return json.dumps(fields, indent=1, allow_nan=False)


def build_data_docs(results: BatchResults, folder: Path, history: int = HISTORY) -> Path:
    """The page of this batch, written under ``<folder>/<pipeline>/`` next to its JSON.

    The newest ``history`` batches keep their files; those of older ones are deleted (the ledger keeps the verdicts).
    """
    pages = pipeline_folder(folder, results.pipeline)
    write(pages / f"{results.batch_id}.json", results.to_json())
    _delete_older(pages, history)
    return write(pages / f"{results.batch_id}.html", render("batch.html.jinja", **json.loads(results.to_json())))


def _stored(pages: Path) -> list[Path]:
    """The stored results of a pipeline, newest batch first."""
    results = [path for path in pages.glob("*.json") if path.stem.isdecimal()]
    return sorted(results, key=lambda path: int(path.stem), reverse=True)


def _delete_older(pages: Path, history: int) -> None:
    for stored in _stored(pages)[history:]:
        stored.with_suffix(".html").unlink(missing_ok=True)
        stored.unlink(missing_ok=True)
