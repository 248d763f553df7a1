"""``lab``: delivery semantics, replication and ordering, measured on servers that break."""

from __future__ import annotations

import time
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from offset_ledger.cli.verbs import Outcome, Verbs, say
from offset_ledger.extras import require

if TYPE_CHECKING:
    from offset_ledger.reliability.labs.report import Report


def add_verb(verbs: Verbs) -> None:
    """Add it to the command line."""
    verb = verbs.add(
        "lab",
        "measure delivery guarantees on real servers that fail on purpose",
        run,
        example="offset-ledger lab semantics --seed 7",
    )
    verb.add_argument("name", choices=list(_LABS), metavar="LAB", help=f"one of {', '.join(_LABS)}")
    verb.add_argument("--seed", type=int, default=1, help="draws where things break (1)")


def run(arguments: Namespace) -> Outcome:
    """Run one lab in a folder of its own and show its table."""
    require("local", "a lab")
    import tempfile

    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="offset-ledger-lab-") as folder:
        report = _LABS[arguments.name](Path(folder).resolve(), arguments.seed)
    seconds = time.monotonic() - began
    data = {"lab": arguments.name, "seed": arguments.seed, "plan": report.plan, "rows": report.rows}
    text = f"{report.text}\n\n{arguments.name}, seed {arguments.seed}: {seconds:.0f} s"
    return Outcome(data | {"seconds": round(seconds, 1)}, text)


def _semantics(folder: Path, seed: int) -> Report:
    from offset_ledger.local import stack as local
    from offset_ledger.local.layout import PortChoice
    from offset_ledger.reliability.labs.semantics import Bench, SemanticsPlan, report, semantics

    plan = SemanticsPlan.draw(seed)
    stack = local.up(brokers=1, ports=PortChoice.any_free(), home=folder / "stack", project=folder, say=say)
    try:
        kafka, postgres, _ = stack.connections()
        return report(plan, semantics(Bench(kafka, postgres, stack.environment(), folder, "lab.semantics", say), plan))
    finally:
        local.down(folder / "stack")


def _replication(folder: Path, seed: int) -> Report:
    from offset_ledger.reliability.labs.replication import replication
    from offset_ledger.reliability.labs.trial import TrialPlan, report

    plan = TrialPlan.draw(seed)
    return report(plan, replication(plan, folder, say))


def _ordering(folder: Path, seed: int) -> Report:
    from offset_ledger.reliability.labs.ordering import OrderingPlan, ordering, report

    plan = OrderingPlan.draw(seed)
    return report(plan, ordering(plan, folder, say))


_LABS = {"semantics": _semantics, "replication": _replication, "ordering": _ordering}
