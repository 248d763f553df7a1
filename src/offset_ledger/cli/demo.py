"""``demo``: the main job on real data, with its proof."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from offset_ledger.cli.output import table
from offset_ledger.cli.verbs import Option, Outcome, from_1, say, verb
from offset_ledger.extras import require

if TYPE_CHECKING:
    from offset_ledger.demo.run import DemoProof


@verb(
    Option("--flights", type=from_1, help="only so many flights (default: all 336,776; 20,000 with --formats)"),
    Option(
        "--formats", action="store_true", help="Avro, Protobuf and JSON Schema instead, while the Avro schema changes"
    ),
    example="offset-ledger demo --flights 20000",
)
def run_demo(arguments: Namespace) -> Outcome:
    """Load real flights through Airflow, and prove every row."""
    require("local", "the demo")
    from offset_ledger.demo.formats import run as formats
    from offset_ledger.demo.run import run

    proof = (formats.run if arguments.formats else run)(arguments.flights, say)
    text = (_formats_text if arguments.formats else _text)(proof)
    return Outcome([asdict(claim) for claim in proof.claims], text, 0 if proof.holds else 1)


def _formats_text(proof: DemoProof) -> str:
    return "\n".join(
        [
            "\nBalance sheet by pipeline",
            table(proof.sheet),
            "\nBatches of flights_avro",
            table(proof.batches),
            "",
            *map(str, proof.claims),
            *_verdict(proof),
            f"\nThe pipeline files are in {proof.stack.home / 'project'}.",
            "Next: docs/tutorial.md, a topic of your own in Avro.",
        ]
    )


def _verdict(proof: DemoProof) -> list[str]:
    return [
        f"\n{'every claim is true' if proof.holds else 'NOT every claim is true'}, {proof.seconds:.0f} s",
        f"  {_times(proof.parts)}",
        f"  tasks of the DAG: {_times(proof.tasks)}",
    ]


def _text(proof: DemoProof) -> str:
    airflow, home = proof.stack.airflow, proof.stack.home
    return "\n".join(
        [
            "\nBalance sheet by partition",
            table(proof.sheet),
            "\nLedger",
            table(proof.batches),
            "",
            *[f"quality report: {page}" for page in proof.pages],
            f"Airflow: {airflow.address} (user admin, password in {airflow.directory / 'passwords.json'})",
            "",
            *map(str, proof.claims),
            *_verdict(proof),
            "\nThe servers stay up: open the entry Ledger in Airflow, or in a shell run:",
            f"  . {home / 'env'} && {sys.argv[0]} status flights",
            "Next: docs/tutorial.md, a topic of your own. `make down` stops the servers, `make clean` removes them.",
        ]
    )


def _times(seconds: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.0f} s" for name, value in seconds.items())
