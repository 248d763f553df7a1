"""The user's rights, from Airflow's own auth manager."""

from __future__ import annotations

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from sqlalchemy import select

from offset_ledger.ids import may_be_ours
from offset_ledger.page.rights import Rights


def rights(user: GetUserDep) -> Rights:
    """What this user may do; as a dependency it refuses users who are not logged in, with 401 or 403.

    The right to trigger is checked as by Airflow's own route, which checks it again when a button is pressed.
    """
    manager = get_auth_manager()
    readable = manager.get_authorized_dag_ids(user=user, method="GET")
    with create_session() as session:
        query = select(DagModel.dag_id, DagModel.is_paused).where(DagModel.dag_id.in_(readable), ~DagModel.is_stale)
        existing = {dag_id: bool(paused) for dag_id, paused in session.execute(query)}
    ours = sorted(filter(may_be_ours, existing))
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
    )
