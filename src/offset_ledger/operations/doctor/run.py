"""The checks of a pipeline, or of all of them."""

import socket
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from offset_ledger.base.extras import is_installed
from offset_ledger.base.retry import retrying_for
from offset_ledger.errors import ConfigurationError, PipelineFileError
from offset_ledger.operations.check.diff import compare_table
from offset_ledger.operations.doctor.finding import Check, Finding, Level, ok, problem, run_checks, warning
from offset_ledger.operations.doctor.installation import AIRFLOW_SECONDS, check_airflow, installation_checks
from offset_ledger.operations.doctor.servers import check_kafka, check_postgres, check_topics
from offset_ledger.outside.connections import environment_name, get_connection
from offset_ledger.outside.schema_registry.client import connect_registry
from offset_ledger.pipeline_file.parse import FOLDER, parse_pipeline, pipeline_files
from offset_ledger.pipeline_file.pipeline import Pipeline, StageEngine
from offset_ledger.steps.validate.step import read_suite

_RETRY_SECONDS = 3.0
_TIMEOUT = 5.0


def examine_pipelines(pipelines: Sequence[Pipeline]) -> Iterator[Finding]:
    """The findings about this machine, the servers of these pipelines, and each of the pipelines."""
    with retrying_for(_RETRY_SECONDS):
        yield from run_checks(checks_of(pipelines))


def examine_all(folder: Path = FOLDER) -> Iterator[Finding]:
    """Return the findings about all pipelines of the folder, and the mistakes of files that have some."""
    pipelines = []
    for path in pipeline_files(folder) if folder.is_dir() else ():
        try:
            pipelines.append(parse_pipeline(path))
        except PipelineFileError as error:
            for mistake in error.problems:
                yield problem(f"file {path.name}", mistake, f"offset-ledger check {path} lists the mistakes again")
    yield from examine_pipelines(pipelines)


def checks_of(pipelines: Sequence[Pipeline]) -> list[Check]:
    """Return all checks in the order of the report; a server is checked once for all its pipelines."""
    kafka, postgres = _of(pipelines, lambda p: p.source.connection), _of(pipelines, lambda p: p.target.connection)
    registries = _of(pipelines, lambda p: p.source.registry)
    checks = [*installation_checks()]
    checks += [Check(f"Kafka {name}", partial(check_kafka, name)) for name in kafka]
    checks += [
        Check(
            f"Postgres {name}",
            partial(check_postgres, name, [each for each in pipelines if each.target.connection == name]),
        )
        for name in postgres
    ]
    checks += [Check(f"registry {name}", partial(check_registry, name)) for name in registries]
    spark = _of(pipelines, lambda p: p.spark.connection)
    checks += [Check(f"Spark {name}", partial(check_spark, name)) for name in spark]
    checks.append(Check("Airflow", partial(check_airflow, pipelines), seconds=AIRFLOW_SECONDS))
    for pipeline in pipelines:
        name = pipeline.name
        checks += [
            Check(f"{name}: stage", partial(check_stage, pipeline, is_installed("spark"))),
            Check(f"{name}: suite", partial(check_suite, pipeline)),
            Check(f"{name}: table", partial(check_table, pipeline), f"Postgres {pipeline.target.connection}"),
            Check(f"{name}: topic", partial(check_topics, pipeline), f"Kafka {pipeline.source.connection}"),
        ]
    return checks


def _of(pipelines: Sequence[Pipeline], connection: Callable[[Pipeline], str | None]) -> list[str]:
    return sorted({name for pipeline in pipelines if (name := connection(pipeline))})


def check_stage(pipeline: Pipeline, can: bool) -> Iterator[Finding]:
    """Check which engine stages its batches, and whether it ``can``: Spark may not be installed."""
    subject, asked, install = f"{pipeline.name}: stage", pipeline.stage, "pip install 'offset-ledger[spark]'"
    if asked.engine is StageEngine.PROCESS:
        yield ok(subject, "one process stages every batch")
    elif can:
        by_size = f"Spark stages a batch of {asked.process_below:,} offsets or more, one process a smaller one"
        yield ok(subject, "Spark stages every batch" if asked.engine is StageEngine.SPARK else by_size)
    elif asked.engine is StageEngine.AUTO:
        text = "Spark is not installed: one process stages batches of any size"
        yield warning(subject, text, f"{install}, or write stage: {{engine: process}}")
    else:
        yield problem(subject, "stage.engine is spark, and Spark is not installed", install)


def check_suite(pipeline: Pipeline) -> Iterator[Finding]:
    """Return whether the suite can be read."""
    read_suite(pipeline)
    suite = pipeline.quality.suite
    yield ok(f"{pipeline.name}: suite", f"{suite} has no mistakes" if suite else "none is configured")


def check_table(pipeline: Pipeline) -> Iterator[Finding]:
    """Return whether the table fits the pipeline file."""
    compared, line = compare_table(pipeline)
    subject = f"{pipeline.name}: table"
    yield Finding(subject, Level.SKIPPED, line) if compared == "not compared" else ok(subject, line)


def check_registry(conn_id: str) -> Iterator[Finding]:
    """Return whether the registry answers."""
    subjects = connect_registry(get_connection(conn_id)).subjects()
    yield ok(f"registry {conn_id}", f"answers, with {len(subjects):,} subjects")


def check_spark(conn_id: str) -> Iterator[Finding]:
    """Return whether the Spark that the connection names can be reached; no session is started."""
    subject = f"Spark {conn_id}"
    try:
        connection = get_connection(conn_id)
    except ConfigurationError:
        text = "not defined: the command line stages on this machine, and Airflow assumes YARN"
        remedy = f'set {environment_name(conn_id)}=\'{{"conn_type": "spark", "host": "local[2]"}}\''
        yield warning(subject, text, remedy)
        return
    scheme, _, host = (connection.host or "").rpartition("://")
    remote = connection.conn_type.replace("-", "_") == "spark_connect" or scheme == "sc"
    if not remote and scheme != "spark":  # neither a Connect server nor a standalone master
        yield ok(subject, f"{connection.host or 'local'}, started with each batch")
        return
    name, _, port = host.rstrip("/").partition(":")
    where = name or "localhost", connection.port or int(port or (15002 if remote else 7077))
    try:
        socket.create_connection(where, _TIMEOUT).close()
    except OSError as error:
        text = f"{where[0]}:{where[1]} cannot be reached ({error})"
        yield problem(subject, text, "start the server, or correct host and port of the connection")
    else:
        yield ok(subject, f"{where[0]}:{where[1]} can be reached")
