"""The plugin as Airflow registers it, from the plugins folder or by the entry point; and the provider."""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path

import pytest

from tests.dags.fresh import answer_of
from tests.paths import ROOT

_LAST = """
from airflow.plugins_manager import AirflowPlugin

class Last(AirflowPlugin):
    name = "last"
"""

_LOOK = """
import json, sys
import airflow.plugins_manager
known = set(sys.modules)
from offset_ledger.interfaces.page.plugin import OffsetLedgerPlugin as plugin
plugin.validate()
print(json.dumps({
    "imported": sorted(set(sys.modules) - known),
    "routes": [view["url_route"] for view in plugin.external_views],
    "prefix": [app["url_prefix"] for app in plugin.fastapi_apps],
    "icons": [view[name] for view in plugin.external_views for name in ("icon", "icon_dark_mode")],
}))
"""

# Both of Airflow's registries, in the order of an API server and of a task.
_REGISTERED = """
import json
from airflow import plugins_manager
from airflow.sdk import plugins_manager as of_tasks
plugins_manager.ensure_plugins_loaded()
apps, _ = plugins_manager.get_fastapi_plugins()
sources = {str(plugin.source) for plugin in plugins_manager._get_plugins()[0] if plugin.name == "offset_ledger"}
print(json.dumps({
    "apps": [app["url_prefix"] for app in apps if app["name"] == "Offset ledger"],
    "from": [source.partition(":")[0].partition("==")[0] for source in sources],
    "errors": plugins_manager.get_import_errors(),
    "of tasks": sorted({"offset_ledger", "last"} & {plugin.name for plugin in of_tasks._get_plugins()[0]}),
}))
"""

_PROVIDER = """
import json
from airflow.providers_manager import ProvidersManager
print(json.dumps(ProvidersManager().providers["offset-ledger"].data["name"]))
"""


def test_it_registers_and_imports_nothing(tmp_path: Path) -> None:
    found = answer_of(_LOOK, tmp_path)
    ours = {"offset_ledger.interfaces.page", "offset_ledger.interfaces.page.plugin"}
    assert {name for name in found["imported"] if not name.startswith("asyncio")} - {"offset_ledger"} == ours
    assert len(set(found["routes"])) == 4
    assert found["prefix"] == ["/offset-ledger"]
    places = {icon.removeprefix("offset-ledger/") for icon in found["icons"]}
    assert len(places) == 4  # two pages, each for light and dark
    assert [place for place in places if not (ROOT / "src/offset_ledger/interfaces/page" / place).is_file()] == []


@pytest.fixture
def last(tmp_path: Path) -> Path:
    """A folder of packages with a plugin that Airflow registers after ours."""
    folder = tmp_path / "last"
    (folder / "last-1.dist-info").mkdir(parents=True)
    (folder / "last-1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: last\nVersion: 1\n")
    (folder / "last-1.dist-info/entry_points.txt").write_text("[airflow.plugins]\nlast = last:Last\n")
    (folder / "last.py").write_text(_LAST)
    return folder


def packages(folder: Path, installed: bool) -> Path:
    """Those of this environment; ours without its entry points, unless it is ``installed``."""
    folder.mkdir()
    for each in Path(sysconfig.get_path("purelib")).iterdir():
        if installed or not each.match("offset_ledger-*.dist-info"):
            (folder / each.name).symlink_to(each)
    return folder


@pytest.mark.parametrize(
    ("file", "installed", "source"),
    [
        ("plugins/offset_ledger_plugin.py", False, "$PLUGINS_FOLDER/offset_ledger_plugin.py"),
        (None, True, "offset-ledger"),
        ("plugins/offset_ledger_plugin.py", True, "$PLUGINS_FOLDER/offset_ledger_plugin.py"),
        # As it was installed before it had an entry point.
        ("src/offset_ledger/interfaces/page/plugin.py", True, "$PLUGINS_FOLDER/offset_ledger_plugin.py"),
    ],
    ids=["folder", "entry point", "both", "a copy of the module, and the entry point"],
)
def test_airflow_registers_it_once(file: str | None, installed: bool, source: str, last: Path, tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    if file:
        shutil.copy(ROOT / file, tmp_path / "plugins/offset_ledger_plugin.py")
    path = (packages(tmp_path / "packages", installed), ROOT / "src", last)
    registered = answer_of(_REGISTERED, tmp_path, flags=("-S",), PYTHONPATH=os.pathsep.join(map(str, path)))
    assert registered == {
        "apps": ["/offset-ledger"],
        "from": [source],
        "errors": {},
        "of tasks": ["last", "offset_ledger"],
    }


def test_airflow_lists_the_provider(tmp_path: Path) -> None:
    assert answer_of(_PROVIDER, tmp_path) == "Offset ledger"
