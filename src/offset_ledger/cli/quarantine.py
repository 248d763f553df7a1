"""``quarantine``: the quarantined records by reason."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from offset_ledger.cli.output import table
from offset_ledger.cli.verbs import Outcome, Verbs, pipeline_of
from offset_ledger.units import counted


def add_verb(verbs: Verbs) -> None:
    """Add it to the command line."""
    summary = "list the quarantined records by reason, with examples"
    verb = verbs.add_for_pipeline(
        "quarantine", summary, run, example="offset-ledger quarantine flights --since 2026-01-31T00:00Z"
    )
    verb.add_argument("--reason", help="only this reason code")
    verb.add_argument("--since", help="only records quarantined since, ISO 8601 with zone")
    verb.add_argument("--limit", type=int, default=5, help="coordinates shown of each reason (5)")
    which = verb.add_mutually_exclusive_group()
    which.add_argument("--resolved", action="store_true", help="those that a redrive has resolved instead")
    which.add_argument("--dismissed", action="store_true", help="those that a person has dismissed instead")


def run(arguments: Namespace) -> Outcome:
    """What is in quarantine, by reason."""
    from offset_ledger.operations.redrive import list_quarantined, parse_choice
    from offset_ledger.operations.status import rejected_batch

    choice, pipeline = parse_choice(arguments.reason, arguments.since, arguments.limit), pipeline_of(arguments)
    total, *reasons = list_quarantined(pipeline, choice, arguments.resolved, arguments.dismissed)
    dismissed = list_quarantined(pipeline, choice, dismissed=True)[0]["records"]
    waiting = rejected_batch(pipeline, arguments.limit)
    state = "resolved" if arguments.resolved else "dismissed" if arguments.dismissed else "unresolved"
    apart = f", and {dismissed:,} dismissed" if dismissed and not arguments.dismissed else ""
    lines = [*([_by_reason(reasons)] if reasons else []), f"{counted(total['records'], f'{state} record')}{apart}"]
    if waiting:
        lines += [f"\nnot among them: what {waiting.batch} refused", _by_reason(waiting.refused), waiting.waits_for]
    data = {"records": total["records"], "dismissed": dismissed, "in_redrive": total["in_redrive"], "reasons": reasons}
    return Outcome(data | {"rejected": asdict(waiting) if waiting else None}, "\n".join(filter(None, lines)))


def _by_reason(reasons: Sequence[Mapping[str, Any]]) -> str:
    return table({**reason, "examples": " ".join(reason["examples"] or ())} for reason in reasons)
