"""The plugin file as every process of Airflow meets it."""

from __future__ import annotations

from pathlib import Path

from tests.dags.fresh import answer_of

_LOOK = """
import json, runpy, sys
import airflow.plugins_manager
known = set(sys.modules)
found = runpy.run_path("plugins/offset_ledger_plugin.py")
plugin = found["OffsetLedgerPlugin"]
plugin.validate()
print(json.dumps({
    "imported": sorted(set(sys.modules) - known),
    "routes": [view["url_route"] for view in plugin.external_views],
    "prefix": [app["url_prefix"] for app in plugin.fastapi_apps],
}))
"""


def test_it_registers_and_imports_nothing(tmp_path: Path) -> None:
    found = answer_of(_LOOK, tmp_path)
    assert [name for name in found["imported"] if not name.startswith("asyncio")] == []
    assert len(set(found["routes"])) == 4
    assert found["prefix"] == ["/offset-ledger"]
