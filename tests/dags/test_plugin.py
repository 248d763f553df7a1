"""The plugin file as every process of Airflow meets it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

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
    done = subprocess.run(
        [sys.executable, "-c", _LOOK],
        cwd=ROOT,
        env={"AIRFLOW_HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "AIRFLOW__CORE__LOAD_EXAMPLES": "False"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert [name for name in found["imported"] if not name.startswith("asyncio")] == []
    assert len(set(found["routes"])) == 4
    assert found["prefix"] == ["/offset-ledger"]
