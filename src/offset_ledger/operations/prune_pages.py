"""The pages that are pruned with the history that they are about."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from pathlib import Path

from offset_ledger.config.names import DAILY_FOLDER
from offset_ledger.ledger import prune
from offset_ledger.ledger.database import Session
from offset_ledger.report.step import reports_folder


def delete_pages(session: Session, pipeline: str, older_than: datetime, dry_run: bool) -> int:
    """Delete the quality pages of batches that the ledger has no more, and pages that a killed process left unfinished.

    Returns how many pages that are.
    """
    pages = [path for path in (reports_folder() / pipeline).glob("*.json") if path.stem.isdecimal()]
    gone = prune.unknown(session, [int(path.stem) for path in pages]) if pages else set()
    old = [path for path in pages if int(path.stem) in gone]
    _delete([each for path in old for each in (path.with_suffix(".html"), path)], dry_run)
    unfinished = [path for name in (pipeline, DAILY_FOLDER) for path in _unfinished(name, older_than)]
    _delete(unfinished, dry_run)
    return len(old) + len(unfinished)


def delete_daily_reports(before: date, dry_run: bool) -> int:
    """Delete the pages of the days before; how many that are. They are about every pipeline."""
    pages = (reports_folder() / DAILY_FOLDER).glob("????-??-??.html")
    old = [path for path in pages if path.stem < before.isoformat()]
    _delete(old, dry_run)
    return len(old)


def _unfinished(folder: str, older_than: datetime) -> list[Path]:
    pages = (reports_folder() / folder).glob(".*.*.*")  # as render.write names them
    return [path for path in pages if _is_older(path, older_than)]


def _is_older(path: Path, moment: datetime) -> bool:
    try:
        return path.stat().st_mtime < moment.timestamp()
    except FileNotFoundError:  # finished meanwhile
        return False


def _delete(paths: Iterable[Path], dry_run: bool) -> None:
    for path in [] if dry_run else paths:
        path.unlink(missing_ok=True)
