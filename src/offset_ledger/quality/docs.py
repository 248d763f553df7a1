"""Data Docs: one self-contained page for each batch and an index for each pipeline, from the stored results.

Great Expectations' own pages load scripts, fonts and a logo from public hosts; these load nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from offset_ledger.errors import ConfigurationError

HISTORY = 200
_NONE = "\N{EN DASH}"
_SMALLEST = 0.0001


@dataclass(frozen=True, slots=True)
class JudgedRange:
    """One range of the batch, as the page shows it."""

    partition: int
    from_offset: int
    until_offset: int


@dataclass(frozen=True, slots=True)
class BatchResults:
    """What the page of one batch shows. ``verdict`` is :class:`Verdict` as the ledger keeps it, JSON with Great
    Expectations' own result; ``refusals`` counts the refused records by reason code.
    """

    pipeline: str
    batch_id: int
    kind: str
    judged_at: datetime
    verdict: Mapping[str, Any]
    ranges: Sequence[JudgedRange] = ()
    refusals: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> str:
        """The stored form; every page is rendered from it."""
        found = {
            "pipeline": self.pipeline,
            "batch_id": self.batch_id,
            "kind": self.kind,
            "judged_at": self.judged_at.isoformat(timespec="seconds"),
            "ranges": [asdict(each) for each in self.ranges],
            "refusals": dict(self.refusals),
            "verdict": dict(self.verdict),
        }
        return json.dumps(found, indent=1, allow_nan=False)


def build_data_docs(results: BatchResults, folder: Path, history: int = HISTORY) -> Path:
    """The page of this batch, written under ``<folder>/<pipeline>/`` beside its JSON and the index of the pipeline.

    The index holds the newest ``history`` batches; the files of older ones are deleted (the ledger keeps verdicts).
    """
    if results.pipeline in ("", ".", "..") or Path(results.pipeline).name != results.pipeline:
        raise ConfigurationError(f"pipeline name {results.pipeline!r} cannot name a folder; use letters, digits and _")
    place = folder / results.pipeline
    place.mkdir(parents=True, exist_ok=True)
    _write(place / f"{results.batch_id}.json", results.to_json())
    _forget(place, history)
    page = place / f"{results.batch_id}.html"
    _write(page, _render("batch.html.jinja", json.loads(results.to_json())))
    batches = [json.loads(stored.read_text()) for stored in _stored(place)]
    _write(place / "index.html", _render("index.html.jinja", {"pipeline": results.pipeline, "batches": batches}))
    return page


def _stored(place: Path) -> list[Path]:
    """The stored results of a pipeline, newest batch first."""
    found = [path for path in place.glob("*.json") if path.stem.isdecimal()]
    return sorted(found, key=lambda path: int(path.stem), reverse=True)


def _forget(place: Path, history: int) -> None:
    for stored in _stored(place)[history:]:
        stored.with_suffix(".html").unlink(missing_ok=True)
        stored.unlink(missing_ok=True)


def _write(path: Path, text: str) -> None:
    """Whole or not at all, for somebody may be reading it."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_text(text)
    unfinished.replace(path)


def _render(template: str, values: Mapping[str, Any]) -> str:
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    loader = PackageLoader("offset_ledger", "quality/templates")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"number": _number, "share": _share, "moment": _moment}
    return environment


def _number(value: int | None) -> str:
    return _NONE if value is None else f"{value:,}"


def _share(value: float | None) -> str:
    """A share as a percentage; a small one is never shown as none, nor one just below all as all."""
    if value is None:
        return _NONE
    if 0 < value < _SMALLEST:
        return "< 0.01 %"
    if 1 - _SMALLEST < value < 1:
        return "> 99.99 %"
    text = f"{value * 100:.2f}".rstrip("0").rstrip(".")
    return f"{text} %"


def _moment(value: str) -> str:
    return value.replace("T", " ").replace("+00:00", " UTC")
