"""``demo``: the main job on real data, with its proof."""

import sys
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import asdict

from offset_ledger.base.extras import require
from offset_ledger.interfaces.cli.output import table
from offset_ledger.interfaces.cli.verbs import Option, Outcome, from_1, say, verb


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
    from offset_ledger_kit.demo.formats import run as formats
    from offset_ledger_kit.demo.run import run
    from offset_ledger_kit.sandbox.airflow import USER

    proof = (formats.run if arguments.formats else run)(arguments.flights, say)
    if arguments.formats:
        tables = "Balance sheet by pipeline", "Batches of flights_avro"
        around = [f"The pipeline files are in {proof.stack.home / 'project'}."]
    else:
        airflow = proof.stack.airflow
        tables = "Balance sheet by partition", "Ledger"
        around = [
            *(f"quality report: {page}" for page in proof.pages),
            "\nThe servers stay up: open the entry Ledger in Airflow, or in a shell run:",
            f"  . {proof.stack.home / 'env'} && {sys.argv[0]} status flights",
            f"Airflow: {airflow.address}, user {USER}, password {airflow.password()}",
        ]
    verdict = "every claim is true" if proof.holds else "NOT every claim is true"
    lines = [f"\n{tables[0]}", table(proof.sheet), f"\n{tables[1]}", table(proof.batches), ""]
    lines += [f"{proof.seconds:.0f} s: {_times(proof.parts)}", f"  tasks of the DAG: {_times(proof.tasks)}", *around]
    lines += [f"\n{verdict}:", *map(str, proof.claims)]
    return Outcome([asdict(claim) for claim in proof.claims], "\n".join(lines), 0 if proof.holds else 1)


def _times(seconds: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.0f} s" for name, value in seconds.items())
