"""The package as Airflow finds it by its entry points: a plugin, and a provider."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.dags.fresh import answer_of
from tests.paths import ROOT

_LOOK = """
import json, sys
import airflow.plugins_manager
known = set(sys.modules)
from offset_ledger.page.plugin import OffsetLedgerPlugin as plugin
plugin.validate()
print(json.dumps({
    "imported": sorted(set(sys.modules) - known),
    "routes": [view["url_route"] for view in plugin.external_views],
    "prefix": [app["url_prefix"] for app in plugin.fastapi_apps],
    "icons": [view[name] for view in plugin.external_views for name in ("icon", "icon_dark_mode")],
}))
"""

_FOUND = """
import json
from airflow import plugins_manager
from airflow.providers_manager import ProvidersManager
plugins_manager.ensure_plugins_loaded()
apps, _ = plugins_manager.get_fastapi_plugins()
provider = ProvidersManager().providers["offset-ledger"]
print(json.dumps({
    "apps": [app["url_prefix"] for app in apps if app["name"] == "Offset ledger"],
    "provider": [provider.version, provider.data["name"]],
}))
"""


def test_it_registers_and_imports_nothing(tmp_path: Path) -> None:
    found = answer_of(_LOOK, tmp_path)
    ours = {"offset_ledger.page", "offset_ledger.page.plugin"}
    assert {name for name in found["imported"] if not name.startswith("asyncio")} - {"offset_ledger"} == ours
    assert len(set(found["routes"])) == 4
    assert found["prefix"] == ["/offset-ledger"]
    places = {icon.removeprefix("offset-ledger/") for icon in found["icons"]}
    assert len(places) == 4  # two pages, each for light and dark
    assert [place for place in places if not (ROOT / "src/offset_ledger/page" / place).is_file()] == []


@pytest.mark.parametrize("copied", [False, True], ids=["installed", "and left in the plugins folder"])
def test_airflow_finds_it_once_and_lists_the_provider(copied: bool, tmp_path: Path) -> None:
    if copied:  # as it was installed before it had entry points
        (tmp_path / "plugins").mkdir()
        shutil.copy(ROOT / "src/offset_ledger/page/plugin.py", tmp_path / "plugins" / "offset_ledger_plugin.py")
    found = answer_of(_FOUND, tmp_path)
    assert found["apps"] == ["/offset-ledger"]
    assert found["provider"][1] == "Offset ledger"
