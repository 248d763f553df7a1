"""The pipeline files that page and exporter show, parsed again only when they change."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path

from offset_ledger.config.model import Pipeline
from offset_ledger.config.parse import parse_pipeline, pipeline_files
from offset_ledger.errors import ConfigurationError, OffsetLedgerError, PipelineFileError
from offset_ledger.plan.topics import known_pipelines
from offset_ledger.standing.reader import reading


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
    """Every pipeline of the folders; a file with mistakes does not hide the others."""
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
