"""Airflow's side: whether it finds the plugin, the DAGs of the pipelines, and their connections."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from offset_ledger.base.extras import is_installed
from offset_ledger.base.ids import ingest_dag
from offset_ledger.operations.doctor.finding import Finding, Level, ok, problem, warning
from offset_ledger.pipeline_file.pipeline import Pipeline

SECONDS = 120.0
_MODULE = "offset_ledger.interfaces.airflow.examination"
_OF_A_TASK = "_AIRFLOW_PARSING_CONTEXT_"  # a task leaves it to its children, and with it only its own DAG is built
_SHELL = "give this shell the AIRFLOW_HOME and the AIRFLOW__ variables of the scheduler"


def check_airflow(pipelines: Sequence[Pipeline]) -> Iterator[Finding]:
    """Check that the Airflow of this machine is ready for these pipelines, in a process of its own that imports it."""
    home = Path(os.environ.get("AIRFLOW_HOME") or "~/airflow").expanduser()
    if not is_installed("airflow"):
        yield Finding("Airflow", Level.SKIPPED, "not installed")
        return
    if not (home / "airflow.cfg").is_file():  # its import alone would write one
        yield Finding("Airflow", Level.SKIPPED, f"not checked: there is no {home}/airflow.cfg; {_SHELL}")
        return
    needed = sorted({each.source.connection for each in pipelines} | {each.target.connection for each in pipelines})
    spark = sorted({each.spark.connection for each in pipelines} - set(needed))
    here = {name: value for name, value in os.environ.items() if not name.startswith(_OF_A_TASK)}
    done = subprocess.run(
        [sys.executable, "-m", _MODULE, *needed, *spark],
        env={**here, "AIRFLOW__CORE__LOAD_EXAMPLES": "False"},
        capture_output=True,
        text=True,
        timeout=SECONDS - 5,
        check=False,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        yield problem("Airflow", f"it cannot be asked ({lines[-1]})", f"look at: airflow info; {_SHELL}")
        return
    yield from judge(json.loads(done.stdout.splitlines()[-1]), [each.name for each in pipelines], frozenset(spark))


def judge(facts: Mapping[str, Any], pipelines: Sequence[str], spark: frozenset[str]) -> Iterator[Finding]:
    """Return the findings about an Airflow that has these pipelines to run; ``spark`` names connections of Spark."""
    if error := facts["plugin"]:
        yield problem("Airflow: plugin", error, "pip install offset-ledger where Airflow's API server runs")
    else:
        yield ok("Airflow: plugin", "the ledger page can be loaded")
    for bundle in facts["bundles"]:
        for file, error in bundle["errors"].items():
            yield problem(f"Airflow: {file}", error, "correct the file, or the pipeline file that it reads")
    present = {dag for bundle in facts["bundles"] for dag in bundle["dags"]}
    missing = [dag for dag in map(ingest_dag, pipelines) if dag not in present]
    where = ", ".join(bundle["path"] for bundle in facts["bundles"]) or "no folder: every bundle is remote"
    if missing:
        remedy = f"put file and DAGs there as in docs/add-to-airflow.md, or {_SHELL}"
        yield warning("Airflow: DAGs", f"not among those of {where}: {', '.join(missing)}", remedy)
    else:
        yield ok("Airflow: DAGs", f"every pipeline has its DAG in {where}")
    for conn_id, error in facts["connections"].items():
        subject = f"Airflow: connection {conn_id}"
        text, _, remedy = (error or "").partition("; ")
        if error is None:
            yield ok(subject, "defined")
        elif conn_id in spark:
            yield warning(subject, f"{text}; Airflow assumes YARN", remedy)
        else:
            yield problem(subject, text, remedy)
