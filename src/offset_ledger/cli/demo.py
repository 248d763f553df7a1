"""``demo``: the main job on real data, with its proof."""

import sys
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import asdict

from offset_ledger.cli.output import table
from offset_ledger.cli.verbs import Option, Outcome, from_1, say, verb
from offset_ledger.extras import require


@verb(
    Option("--flights", type=from_1, help="only so many flights (default: all 336,776; 20,000 with --formats)"),
    Option(
        "--formats",
        action="store_true",
        help="Avro, Protobuf, JSON Schema and change events instead, while the Avro schema changes",
    ),
    example="offset-ledger demo --flights 20000",
)
def run_demo(arguments: Namespace) -> Outcome:
    """Load real flights through Airflow, and prove every row."""
    require("local", "the demo")
    from offset_ledger.demo.formats import run as formats
    from offset_ledger.demo.run import run

    proof = (formats.run if arguments.formats else run)(arguments.flights, say)
    if arguments.formats:
        tables = "Balance sheet by pipeline", "Batches of flights_avro"
        around = list[str]()
        then = [
            f"\nThe pipeline files are in {proof.stack.home / 'project'}.",
            "Next: docs/tutorial.md, a topic of your own in Avro.",
        ]
    else:
        airflow, home = proof.stack.airflow, proof.stack.home
        tables = "Balance sheet by partition", "Ledger"
        around = ["", *(f"quality report: {page}" for page in proof.pages)]
        around.append(f"Airflow: {airflow.address} (user admin, password in {airflow.directory / 'passwords.json'})")
        then = [
            "\nThe servers stay up: open the entry Ledger in Airflow, or in a shell run:",
            f"  . {home / 'env'} && {sys.argv[0]} status flights",
            "Next: docs/tutorial.md, a topic of your own. `make down` stops the servers, `make clean` removes them.",
        ]
    verdict = "every claim is true" if proof.holds else "NOT every claim is true"
    lines = [f"\n{tables[0]}", table(proof.sheet), f"\n{tables[1]}", table(proof.batches), *around, ""]
    lines += [*map(str, proof.claims), f"\n{verdict}, {proof.seconds:.0f} s", f"  {_times(proof.parts)}"]
    lines += [f"  tasks of the DAG: {_times(proof.tasks)}", *then]
    return Outcome([asdict(claim) for claim in proof.claims], "\n".join(lines), 0 if proof.holds else 1)


def _times(seconds: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.0f} s" for name, value in seconds.items())
