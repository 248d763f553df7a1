"""Records that are appended: each is a row once, known by its place in Kafka."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.config.model import Pipeline
from offset_ledger.config.parse import parse_pipeline
from offset_ledger.ledger.database import Session, rows, transaction
from offset_ledger.model.balance_sheet import Dispositions
from offset_ledger.model.states import BatchKind
from offset_ledger.repair.verify import verify
from tests.fixtures.raw import Raw, commit_raw
from tests.fixtures.staged import NOON

PIPELINE = """
pipeline: clicks
source: {{topic: clicks}}
record:
  columns: {{n: integer, note: {{type: text, nullable: true}}}}
target: {{table: public.clicks, merge: append{target}}}
quality: {{max_quarantined_share: 1.0}}
"""


def written(folder: Path, target: str = "") -> Pipeline:
    path = folder / "clicks.yaml"
    path.write_text(PIPELINE.format(target=target))
    return parse_pipeline(path)


def record(offset: int, n: Any = None, partition: int = 0, **more: Any) -> Raw:
    body = {"n": 100 * partition + offset if n is None else n, **more}
    return Raw(partition, offset, json.dumps(body).encode())


def do(session: Session, statement: str) -> None:
    with transaction(session) as cursor:
        cursor.execute(statement)


def table(session: Session, columns: str = "_partition, _offset, n") -> list[tuple[Any, ...]]:
    return [tuple(row) for row in rows(session, f"SELECT {columns} FROM public.clicks ORDER BY 1, 2")]


@pytest.mark.parametrize("target", ["", ", bookkeeping: beside"])
def test_smoke(session: Session, tmp_path: Path, target: str) -> None:
    pipeline = written(tmp_path, target)
    done = commit_raw(session, pipeline, [record(0), record(1), record(2), record(0, partition=1)])
    assert done.total == Dispositions(inserted=4)
    print(table(session, "*"))
    again = commit_raw(session, pipeline, [record(0), record(1), record(2), record(0, partition=1)], BatchKind.REPLAY)
    assert again.total == Dispositions(duplicate=4)
    assert verify(pipeline)[0] == []
