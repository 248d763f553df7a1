"""``prune``: remove the ledger's history by age."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict
from typing import TYPE_CHECKING

from offset_ledger.cli.verbs import Outcome, Verbs, pipeline_of
from offset_ledger.operations.prune_ages import KINDS

if TYPE_CHECKING:
    from offset_ledger.operations.prune import Pruned


def add_verb(verbs: Verbs) -> None:
    """Add it to the command line."""
    summary = "remove history by age from the ledger; what verify needs is kept as sums"
    verb = verbs.add_for_pipeline(
        "prune", summary, run, example="offset-ledger prune flights --older-than 90d --dry-run"
    )
    verb.add_argument("--older-than", required=True, metavar="AGE", help="since it ended, such as 90d")
    about = f"another age for one of {', '.join(KINDS)}, such as audits=365d; may be repeated"
    verb.add_argument("--keep", action="append", default=[], metavar="KIND=AGE", help=about)
    verb.add_argument("--dry-run", action="store_true", help="count what would be removed, and remove nothing")


def run(arguments: Namespace) -> Outcome:
    """Remove history by age."""
    from offset_ledger.ledger.origin import current_origin
    from offset_ledger.operations.prune import prune_history
    from offset_ledger.operations.prune_ages import Ages

    ages = Ages.parse(arguments.older_than, arguments.keep)
    pruned = prune_history(pipeline_of(arguments), ages, current_origin(), arguments.dry_run)
    return Outcome({**asdict(pruned), "dry_run": arguments.dry_run}, _text(pruned, arguments.dry_run))


def _text(pruned: Pruned, dry_run: bool) -> str:
    what = {"batches": pruned.batches, "quarantined records": pruned.records, "results of audits": pruned.audits}
    what |= {"notifications": pruned.notifications, "schemas": pruned.schemas, "quality pages": pruned.pages}
    what |= {"daily reports": pruned.daily_reports}
    counts = ", ".join(f"{count:,} {name}" for name, count in what.items())
    lines = [f"would remove {counts}" if dry_run else f"removed {counts}"]
    lines += [f"kept {count:,} old batches: {_KEPT[reason]}" for reason, count in sorted(pruned.kept.items())]
    return "\n".join(lines)


_KEPT = {
    "age": "by the clock of their worker they ended later",
    "decision": "a person decided about them",
    "quarantine": "records of theirs are in quarantine; redrive or dismiss them, and prune again later",
}
