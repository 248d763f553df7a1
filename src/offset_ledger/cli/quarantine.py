"""The verbs about quarantined records: looking at them, trying them again, delivering dead letters."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from offset_ledger.cli.batches import line, summary
from offset_ledger.cli.verbs import Outcome, Verbs, pipeline_of, say, table


def add_verbs(verbs: Verbs) -> None:
    """Add the verbs of this module to the command line."""
    made = verbs.of_pipeline("redrive", "try quarantined records again, with today's decoder and suite", redrive)
    made.add_argument("--reason", help="only records refused for this reason code; see: quarantine PIPELINE")
    made.add_argument("--since", help="only records quarantined since, ISO 8601 with zone")
    made.add_argument("--limit", type=int, help="at most so many records (limits.records_per_batch)")
    made.add_argument("--why", help="kept with the batch")

    made = verbs.of_pipeline("quarantine", "the quarantined records by reason, with some coordinates", quarantine)
    made.add_argument("--reason", help="only this reason code")
    made.add_argument("--since", help="only records quarantined since, ISO 8601 with zone")
    made.add_argument("--limit", type=int, default=5, help="coordinates shown of each reason (5)")
    which = made.add_mutually_exclusive_group()
    which.add_argument("--resolved", action="store_true", help="those that a redrive has resolved instead")
    which.add_argument("--dismissed", action="store_true", help="those that a person has dismissed instead")

    made = verbs.of_pipeline("dismiss", "say that quarantined records will never fit; no redrive takes them", dismiss)
    made.add_argument("--partition", type=int, help="of the records named by --offset")
    made.add_argument("--offset", type=int, nargs="+", metavar="O", help="one or more offsets of that partition")
    made.add_argument("--reason", help="all records refused for this reason code; see: quarantine PIPELINE")
    made.add_argument("--since", help="only records quarantined since, ISO 8601 with zone")
    made.add_argument("--why", required=True, help="kept with the decision")
    made.add_argument("--undo", action="store_true", help="take the dismissal of these records back")

    verbs.of_pipeline("dead-letters", "deliver the dead letters that wait in the outbox", deliver_letters)


def redrive(arguments: Namespace) -> Outcome:
    """Try quarantined records again."""
    from offset_ledger.ledger.origin import current_origin
    from offset_ledger.operations.ingest import run_batch
    from offset_ledger.operations.redrive import parse_choice, plan_redrive

    pipeline = pipeline_of(arguments)
    choice = parse_choice(arguments.reason, arguments.since, arguments.limit)
    planned = plan_redrive(pipeline, choice, current_origin(), arguments.why)
    say(planned.message)
    if planned.batch is None:
        return Outcome(None, "nothing is to redrive, nothing changed")
    done = run_batch(pipeline, planned, current_origin(), say)
    return Outcome(summary(done), line(done))


def quarantine(arguments: Namespace) -> Outcome:
    """What is in quarantine, by reason."""
    from offset_ledger.operations.redrive import list_quarantined, parse_choice
    from offset_ledger.operations.status import rejected_batch

    choice, pipeline = parse_choice(arguments.reason, arguments.since, arguments.limit), pipeline_of(arguments)
    whole, *reasons = list_quarantined(pipeline, choice, arguments.resolved, arguments.dismissed)
    dismissed = list_quarantined(pipeline, choice, dismissed=True)[0]["records"]
    waiting = rejected_batch(pipeline, arguments.limit)
    state = "resolved" if arguments.resolved else "dismissed" if arguments.dismissed else "unresolved"
    apart = f", and {dismissed:,} dismissed" if dismissed and not arguments.dismissed else ""
    lines = [*([_by_reason(reasons)] if reasons else []), f"{whole['records']:,} {state} records{apart}"]
    if waiting:
        lines += [f"\nnot among them: what {waiting.batch} refused", _by_reason(waiting.refused), waiting.waits_for]
    data = {"records": whole["records"], "dismissed": dismissed, "in_redrive": whole["in_redrive"], "reasons": reasons}
    return Outcome(data | {"rejected": asdict(waiting) if waiting else None}, "\n".join(filter(None, lines)))


def dismiss(arguments: Namespace) -> Outcome:
    """Dismiss quarantined records, or undo that."""
    from offset_ledger.ledger.dismissals import Selection
    from offset_ledger.ledger.origin import current_origin
    from offset_ledger.operations.dismiss import dismiss as run
    from offset_ledger.operations.redrive import parse_choice

    pipeline = pipeline_of(arguments)
    choice = parse_choice(arguments.reason, arguments.since)
    offsets = None if arguments.offset is None else tuple(arguments.offset)
    selection = Selection(arguments.partition, offsets, choice.reason, choice.since)
    done = run(pipeline, selection, current_origin(), arguments.why, arguments.undo)
    what = "unresolved again" if arguments.undo else "dismissed"
    data = {"dismissal_id": done.dismissal_id, "records": done.records, "undone": arguments.undo}
    return Outcome(data, f"{len(done.records):,} records of {pipeline.name} {what}")


def _by_reason(reasons: Sequence[Mapping[str, Any]]) -> str:
    return table({**line, "examples": " ".join(line["examples"] or ())} for line in reasons)


def deliver_letters(arguments: Namespace) -> Outcome:
    """Deliver what waits in the outbox."""
    from offset_ledger.operations.dead_letters import deliver

    done = deliver(pipeline_of(arguments))
    return Outcome(asdict(done), str(done))
