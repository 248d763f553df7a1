"""``kafka lab``: what delivery guarantees lose, measured."""

from __future__ import annotations

import time
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from offset_ledger.base.extras import require
from offset_ledger.interfaces.cli.verbs import Option, Outcome, say, verb

if TYPE_CHECKING:
    from offset_ledger_kit.labs.trial import Report


def _semantics(folder: Path, seed: int) -> Report:
    from offset_ledger_kit.labs.semantics import Bench, SemanticsPlan, report, semantics
    from offset_ledger_kit.sandbox import stack as local
    from offset_ledger_kit.sandbox.layout import PortChoice

    plan = SemanticsPlan.draw(seed)
    stack = local.up(brokers=1, ports=PortChoice.any_free(), home=folder / "stack", project=folder, say=say)
    try:
        kafka, postgres, _ = stack.connections()
        return report(plan, semantics(Bench(kafka, postgres, stack.environment(), folder, "lab.semantics", say), plan))
    finally:
        local.down(folder / "stack")


def _replication(folder: Path, seed: int) -> Report:
    from offset_ledger_kit.labs.replication import replication
    from offset_ledger_kit.labs.trial import TrialPlan, report

    plan = TrialPlan.draw(seed)
    return report(plan, replication(plan, folder, say))


def _ordering(folder: Path, seed: int) -> Report:
    from offset_ledger_kit.labs.ordering import OrderingPlan, ordering, report

    plan = OrderingPlan.draw(seed)
    return report(plan, ordering(plan, folder, say))


_LABS = {"semantics": _semantics, "replication": _replication, "ordering": _ordering}


@verb(
    Option("name", choices=list(_LABS), metavar="LAB", help=f"one of {', '.join(_LABS)}"),
    Option("--seed", type=int, default=1, help="draws where things break (1)"),
    example="offset-ledger kafka lab semantics --seed 7",
)
def run_lab(arguments: Namespace) -> Outcome:
    """Measure delivery guarantees on real servers that fail on purpose."""
    require("local", "a lab")
    import tempfile

    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="offset-ledger-lab-") as folder:
        report = _LABS[arguments.name](Path(folder).resolve(), arguments.seed)
    seconds = time.monotonic() - began
    data = {"lab": arguments.name, "seed": arguments.seed, "plan": report.plan, "rows": report.rows}
    text = f"{report.text}\n\n{arguments.name}, seed {arguments.seed}: {seconds:.0f} s"
    return Outcome(data | {"seconds": round(seconds, 1)}, text)
