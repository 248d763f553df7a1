"""``diff``: schema, pipeline file and table side by side."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict
from typing import TYPE_CHECKING

from offset_ledger.cli.fitting import cut, fitting
from offset_ledger.cli.verbs import Outcome, Verbs, pipeline_of

if TYPE_CHECKING:
    from offset_ledger.operations.compare_schemas import Line
    from offset_ledger.operations.diff import Diff

_WIDTH = 200  # wider than most terminals: side by side is what it is for


def add_verb(verbs: Verbs) -> None:
    """Add it to the command line."""
    summary = "compare the latest schema, the pipeline file and the table, and say what each difference means"
    verbs.add_for_pipeline("diff", summary, run, example="offset-ledger diff orders_avro")


def run(arguments: Namespace) -> Outcome:
    """Compare schema, file and table; exit code 1 where a difference costs records or stops a run."""
    from offset_ledger.operations.diff import diff

    pipeline = pipeline_of(arguments)
    compared = diff(pipeline)
    data = {"pipeline": pipeline.name, "differs": compared.differs, **asdict(compared)}
    return Outcome(data, _text(compared), 1 if compared.differs else 0)


def _text(compared: Diff) -> str:
    differs = "these differences cost records or stop a run: see !"
    summary = differs if compared.differs else "no difference that matters"
    schemas = [f"schema: {', '.join(compared.schemas)}"] if compared.schemas else []
    marks = [text for line in compared.lines for text in _marks(line)]
    side_by_side = fitting([_cells(line) for line in compared.lines], _WIDTH)
    return "\n".join([*schemas, *compared.notes, "", side_by_side, "", *marks, summary])


def _cells(line: Line) -> dict[str, str]:
    sign = "!" if any(mark.matters for mark in line.marks) else "+" if line.marks else ""
    cells = {"path": line.path, "schema": line.schema, "column": line.column, "file": line.file, "table": line.table}
    return {"": sign, **{name: cut(text) for name, text in cells.items()}}


def _marks(line: Line) -> list[str]:
    return [f"{'!' if mark.matters else '+'} {line.path or line.column or 'table'}: {mark.text}" for mark in line.marks]
