"""The page as Airflow's API server mounts it: with the user's rights, and the pipeline files of the DAG bundles."""

import os
import time
from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.dag_processing.bundles.base import BundleVersionLock
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.models.dag import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from offset_ledger.base.ids import AUDIT_DAG, may_be_ours
from offset_ledger.interfaces.page.app import create_app
from offset_ledger.interfaces.page.rights import Rights
from offset_ledger.operations.status.reader import KnownPipelines, read_pipelines


def rights(user: GetUserDep) -> Rights:
    """Return the rights of this user; as a dependency it refuses users who are not logged in, with 401 or 403.

    The right to trigger is checked as by Airflow's own route, which checks it again when a button is pressed.
    """
    manager = get_auth_manager()
    readable = manager.get_authorized_dag_ids(user=user, method="GET")
    with create_session() as session:
        query = select(DagModel.dag_id, DagModel.is_paused).where(DagModel.dag_id.in_(readable), ~DagModel.is_stale)
        existing = {dag_id: bool(paused) for dag_id, paused in session.execute(query)}
        ours = sorted(filter(may_be_ours, existing))
        failed = failing(session, ours)
        audit_due = session.scalar(select(DagModel.next_dagrun_create_after).where(DagModel.dag_id == AUDIT_DAG))
    teams = DagModel.get_dag_id_to_team_name_mapping(ours) if ours else {}

    def details(dag_id: str) -> DagDetails:
        return DagDetails(id=dag_id, team_name=teams.get(dag_id))

    def may_trigger(dag_id: str) -> bool:
        run = DagAccessEntity.RUN
        return bool(manager.is_authorized_dag(method="POST", access_entity=run, details=details(dag_id), user=user))

    def may_edit(dag_id: str) -> bool:
        return bool(manager.is_authorized_dag(method="PUT", details=details(dag_id), user=user))

    return Rights(
        readable=frozenset(readable),
        triggerable=frozenset(filter(may_trigger, ours)),
        existing=frozenset(existing),
        paused=frozenset(dag_id for dag_id, paused in existing.items() if paused),
        import_errors=bool(manager.is_authorized_view(access_view=AccessView.IMPORT_ERRORS, user=user)),
        editable=frozenset(filter(may_edit, ours)),
        failed=failed,
        audit_due=audit_due,
    )


def failing(session: Session, dag_ids: Collection[str]) -> frozenset[str]:
    """Return those of the DAGs whose newest run failed."""
    newest = select(func.max(DagRun.id)).where(DagRun.dag_id.in_(dag_ids)).group_by(DagRun.dag_id)
    runs = select(DagRun.dag_id).where(DagRun.id.in_(newest), DagRun.state == DagRunState.FAILED)
    return frozenset(session.scalars(runs))


_SECONDS = 60


def bundle_pipelines() -> KnownPipelines:
    """Return every pipeline of ``pipelines/`` in a DAG bundle, and a line for each bundle that could not be read."""
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


def known() -> KnownPipelines:
    """The pipelines of ``$OFFSET_LEDGER_PIPELINES``, else those of the DAG bundles."""
    folder = os.environ.get("OFFSET_LEDGER_PIPELINES")
    return read_pipelines(Path(folder)) if folder else bundle_pipelines()


app = create_app(rights, known)
