"""``verify``: the invariants of the ledger, the causes of gaps, and the table against the topic."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from offset_ledger.cli.verbs import Outcome, Verbs, pipeline_of
from offset_ledger.units import counted

if TYPE_CHECKING:
    from offset_ledger.config.model import Pipeline


def add_verb(verbs: Verbs) -> None:
    """Add it to the command line."""
    verb = verbs.add_for_pipeline(
        "verify",
        "check every invariant of the ledger, and the number of rows in the table",
        run,
        example="offset-ledger verify flights --against-topic",
    )
    verb.add_argument("--deep", action="store_true", help="read the gaps again and name the cause of each offset")
    topic = "read again what the topic still has, and compare every row and every quarantined record with it"
    verb.add_argument("--against-topic", action="store_true", help=topic)


def run(arguments: Namespace) -> Outcome:
    """Check every invariant."""
    pipeline = pipeline_of(arguments)
    result = _ledger(pipeline)
    if arguments.deep:
        _add_gaps(result, pipeline)
    if arguments.against_topic:
        _add_topic(result, pipeline)
    data = {"violations": result.violations, "checked": result.checked, "notes": result.notes, **result.more}
    return Outcome(data, "\n".join(result.lines), 1 if result.violations else 0)


@dataclass(slots=True)
class _Result:
    """All checks so far; ``more`` are the members of --json that the optional checks add."""

    checked: int
    violations: list[str]
    notes: list[str]
    lines: list[str]
    more: dict[str, Any] = field(default_factory=dict)


def _ledger(pipeline: Pipeline) -> _Result:
    from offset_ledger.operations.verify import uncounted_reason, verify

    violations, checked = verify(pipeline)
    summary = f"all {checked} invariants hold" if checked else f"{pipeline.name} has no batches yet: nothing to check"
    notes = [note] if (note := uncounted_reason(pipeline)) else []
    return _Result(checked, list(violations), notes, [*(violations or [summary]), *notes])


def _add_gaps(result: _Result, pipeline: Pipeline) -> None:
    from offset_ledger.operations.verify import explain_gaps

    deep = explain_gaps(pipeline)
    result.violations += deep.violations
    result.lines += [*deep.violations, *deep.unreadable, *map(str, deep.gaps)]
    result.more |= {"gaps": [str(gap) for gap in deep.gaps], "unreadable": list(deep.unreadable)}


def _add_topic(result: _Result, pipeline: Pipeline) -> None:
    from offset_ledger.operations.verify_against_topic import compare_with_topic

    compared = compare_with_topic(pipeline)
    result.violations += compared.violations
    result.notes += compared.notes
    ranges = ", ".join(map(str, compared.ranges)) or "nothing"
    read = f"{counted(compared.records, 'record')} of {pipeline.source.topic} read again: {ranges}"
    result.lines += [*compared.violations, *compared.notes, read]
    result.more["records"] = compared.records
    result.more["read_again"] = [[r.partition, r.from_offset, r.until_offset] for r in compared.ranges]
