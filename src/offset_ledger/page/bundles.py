"""The pipeline files in Airflow's DAG bundles, in the versions that the DAG processor has seen last."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from airflow.dag_processing.bundles.base import BundleVersionLock
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.models.dagbundle import DagBundleModel
from airflow.utils.session import create_session
from sqlalchemy import select

from offset_ledger.page.pipelines import KnownPipelines, read_pipelines

_SECONDS = 60


def bundle_pipelines() -> KnownPipelines:
    """Every pipeline of ``pipelines/`` in a DAG bundle; a line for each bundle that could not be read."""
    with create_session() as session:
        active = select(DagBundleModel.name, DagBundleModel.version).where(DagBundleModel.active.is_(True))
        versions = sorted((str(name), version) for name, version in session.execute(active))
    minute = int(time.monotonic() // _SECONDS)
    paths = [_path(name, version, minute) for name, version in versions]
    folders = [path / "pipelines" for path in paths if isinstance(path, Path)]
    known = read_pipelines(*(folder for folder in folders if folder.is_dir()))
    problems = [problem for problem in paths if isinstance(problem, str)]
    if not any(folder.is_dir() for folder in folders):
        names = ", ".join(name for name, _ in versions) or "none"
        problems.append(
            f"expected a folder pipelines in a DAG bundle, found DAG bundles without one: {names}; "
            "let OFFSET_LEDGER_PIPELINES name the folder of the pipeline files"
        )
    return replace(known, problems=(*problems, *known.problems))


@lru_cache(maxsize=256)
def _path(name: str, version: str | None, _minute: int) -> Path | str:
    """The bundle's folder, checked out here if it has versions; why not, if it cannot be. Asked again each minute."""
    try:
        bundle = DagBundlesManager().get_bundle(name, version)  # type: ignore[no-untyped-call]
        if version:
            # The lock tells Airflow's own removal of old versions that this one is in use.
            with BundleVersionLock(name, version):  # type: ignore[no-untyped-call]
                bundle.initialize()
        return bundle.path
    except Exception as error:  # noqa: BLE001 - whatever a class of bundles raises, the other bundles are shown
        said = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return (
            f"expected version {version} of DAG bundle {name} on the API server, found {said}; "
            "let the API server reach its source, or let OFFSET_LEDGER_PIPELINES name a folder"
        )
