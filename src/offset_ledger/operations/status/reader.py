"""Read access for pages and the exporter: cached pipeline files, and ledgers in short read-only transactions."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from pathlib import Path

from psycopg2 import errors as pg

from offset_ledger.errors import ConfigurationError, DatabaseUnavailable, OffsetLedgerError, PipelineFileError
from offset_ledger.operations.status.pipeline import COUNTED, Ledger, LedgerPartition, LedgerRow
from offset_ledger.outside.connections import get_connection
from offset_ledger.pipeline_file.parse import parse_pipeline, pipeline_files
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import ONE_SNAPSHOT, Cursor, open_ledger_at, set_local, transaction
from offset_ledger.postgres.ledger.pipelines import retirements
from offset_ledger.steps.plan.topics import known_pipelines

_CONNECT_SECONDS = "3"
_STATEMENT_MILLISECONDS = 10_000


@contextmanager
def reading(conn_id: str, name: str = "offset-ledger page") -> Iterator[Cursor]:
    """A read-only cursor on one snapshot; it does not wait for a database that is unavailable.

    ``name`` is the application_name of its session.

    Raises:
        DatabaseUnavailable: the database did not answer at once.
        ConfigurationError: the connection is not defined, or the ledger is not migrated.
    """
    defined = get_connection(conn_id)
    connection = replace(defined, extra={"connect_timeout": _CONNECT_SECONDS, **defined.extra})
    with open_ledger_at(connection, name, timeout=0) as session, transaction(session, ONE_SNAPSHOT) as cursor:
        set_local(cursor, "statement_timeout", str(_STATEMENT_MILLISECONDS))
        try:
            yield cursor
        except pg.QueryCanceled as error:  # our own timeout, so there is no setting to correct
            seconds = _STATEMENT_MILLISECONDS // 1000
            raise DatabaseUnavailable(f"the ledger did not answer within {seconds} s; try again") from error


def read_ledger(cursor: Cursor, names: Sequence[str] | None = None) -> Ledger:
    """Return the ledger's state of these pipelines, or of all but the forgotten ones."""
    arguments = {"pipelines": None if names is None else list(names), "limit": COUNTED}
    pipelines = {row["pipeline"]: row for row in read_rows(cursor, "standing/pipelines", **arguments)}
    partitions: dict[str, list[LedgerPartition]] = {}
    for row in read_rows(cursor, "standing/partitions", **arguments):
        values = {name: value for name, value in row.items() if name != "pipeline"}
        partitions.setdefault(row["pipeline"], []).append(LedgerPartition(**values))
    retired = retirements(cursor, list(pipelines))
    return Ledger(pipelines, partitions, {name: str(each) for name, each in retired.items()})


def read_rows(cursor: Cursor, query: str, **arguments: object) -> list[LedgerRow]:
    """Return the rows of a query of ``ledger/sql/``."""
    return [dict(row) for row in cursor.run(query, **arguments)]


@dataclass(frozen=True, slots=True)
class KnownPipelines:
    """The pipelines by name, and a line for each mistake in the files."""

    pipelines: dict[str, Pipeline]
    problems: tuple[str, ...]


def by_ledger(pipelines: Iterable[Pipeline]) -> list[tuple[str, list[Pipeline]]]:
    """The pipelines of each target connection, whose database holds their ledger."""
    ordered = sorted(pipelines, key=lambda pipeline: pipeline.target.connection)
    return [(conn_id, list(group)) for conn_id, group in groupby(ordered, key=lambda p: p.target.connection)]


def pipelines_folder(dags: Path) -> Path:
    """``$OFFSET_LEDGER_PIPELINES``, else ``pipelines/`` of the DAGs folder."""
    return Path(os.environ.get("OFFSET_LEDGER_PIPELINES") or dags / "pipelines")


def read_pipelines(*folders: Path) -> KnownPipelines:
    """Return every pipeline of the folders; a file with mistakes does not hide the others."""
    pipelines: dict[str, Pipeline] = {}
    problems: list[str] = []
    try:
        paths = [path for folder in folders for path in pipeline_files(folder)]
    except ConfigurationError as error:
        return KnownPipelines({}, (str(error),))
    for path in paths:
        try:
            pipeline = _parsed(path, path.stat().st_mtime_ns)
            # Where no topic has matched yet, it is the file's own pipeline.
            shown = known_pipelines(pipeline, reading(pipeline.target.connection)) or (pipeline,)
            pipelines |= {each.name: each for each in shown if each.name not in pipelines}
        except PipelineFileError as error:
            problems += error.problems
        except OffsetLedgerError as error:
            problems.append(f"{path}: the topics that match are not known: {error}")
        except OSError as error:
            problems.append(f"{path}: {error.strerror}")
    return KnownPipelines(pipelines, tuple(problems))


@lru_cache(maxsize=1024)
def _parsed(path: Path, _changed: int) -> Pipeline:
    return parse_pipeline(path)
