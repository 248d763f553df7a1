"""``check``: a pipeline file and its suite, and the table where Postgres can be reached."""

from __future__ import annotations

from argparse import Namespace

from offset_ledger.cli.verbs import Outcome, Topics, Verbs, pipeline_of
from offset_ledger.errors import ConfigurationError


def add_verb(verbs: Verbs) -> None:
    """Add it to the command line."""
    verbs.add_for_pipeline(
        "check",
        "check a pipeline file, and whether its table fits",
        run,
        Topics.TOGETHER,
        example="offset-ledger check flights",
    )


def run(arguments: Namespace) -> Outcome:
    """Check a pipeline file, its suite, and the table where that can be reached."""
    from offset_ledger.airflow.notifiers import wrong_notifiers
    from offset_ledger.operations.check_table import compare_table
    from offset_ledger.validate.step import read_suite

    pipeline = pipeline_of(arguments)
    read_suite(pipeline)
    if wrong := list(wrong_notifiers(pipeline)):
        raise ConfigurationError("\n".join(wrong))
    compared, line = compare_table(pipeline)
    data = {"pipeline": pipeline.name, "config_hash": pipeline.config_hash, "table": compared}
    return Outcome(data, f"{pipeline.path}: no mistakes\n{line}")
