"""The ledger and its audits in the Airflow UI: registration only, for every process of Airflow imports this module."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from importlib import import_module
from typing import Any

from airflow.plugins_manager import AirflowPlugin

Message = MutableMapping[str, Any]
_IN_PLUGINS_FOLDER = "offset_ledger_plugin"


async def ledger_page(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    """The pages' ASGI application, imported with the first request: only an API server ever gets one."""
    page = await asyncio.to_thread(import_module, "offset_ledger.interfaces.page.mounted")
    await page.app(scope, receive, send)


def _view(
    url_route: str, destination: str, place: str = "", name: str = "Ledger", icon: str = "ledger"
) -> dict[str, str | bool]:
    # Relative, so that it follows Airflow's base URL; the slash, because the pages' own addresses are relative too.
    return {
        "name": name,
        "icon": f"offset-ledger/static/icons/{icon}.svg",
        "icon_dark_mode": f"offset-ledger/static/icons/{icon}-dark.svg",
        "href": f"offset-ledger/{place}",
        "url_route": url_route,
        "destination": destination,
        "nav_top_level": destination == "nav",
    }


class OffsetLedgerPlugin(AirflowPlugin):
    """Navigation entries for ledger and audits, and a tab of the ledger on each DAG and each DAG run."""

    name = "offset_ledger"
    # No react_apps: their module shares React and Chakra with the UI, so that the UI's next version can break it. No
    # route writes: the buttons call Airflow's REST API as the user, with its permissions and its audit log.
    fastapi_apps = [{"app": ledger_page, "url_prefix": "/offset-ledger", "name": "Offset ledger"}]
    external_views = [
        _view("offset-ledger", "nav"),
        _view("offset-ledger-audit", "nav", "audit", "Topic audit", "audit"),
        _view("offset-ledger-dag", "dag", "?dag_id={DAG_ID}"),
        _view("offset-ledger-run", "dag_run", "?dag_id={DAG_ID}&run_id={RUN_ID}"),
    ]


def __getattr__(name: str) -> type[OffsetLedgerPlugin] | None:
    """``entry_point``: the plugin, or None where Airflow has it from its plugins folder, which it loads first.

    Airflow passes over an entry point that is no class. A plugin that is registered twice is an import error, or costs
    the plugins after it.
    """
    if name != "entry_point":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return None if hasattr(sys.modules.get(_IN_PLUGINS_FOLDER), "OffsetLedgerPlugin") else OffsetLedgerPlugin
