"""What several tests of the local stack need."""

from __future__ import annotations

from pathlib import Path

import pytest

SETTINGS = """<ivysettings><settings defaultResolver="here"/><resolvers>
<filesystem name="here" m2compatible="true">
<ivy pattern="{root}/[organisation]/[module]/[revision]/[module]-[revision].pom"/>
<artifact pattern="{root}/[organisation]/[module]/[revision]/[artifact]-[revision](-[classifier]).[ext]"/>
</filesystem></resolvers></ivysettings>"""


@pytest.fixture
def maven(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder that Ivy takes for the Maven repository, beside an empty cache."""
    (tmp_path / "settings.xml").write_text(SETTINGS.format(root=tmp_path / "repository"))
    monkeypatch.setenv("OFFSET_LEDGER_IVY_SETTINGS", str(tmp_path / "settings.xml"))
    monkeypatch.setenv("OFFSET_LEDGER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "repository"
