"""The site of the documentation, opened as files by somebody without a network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.paths import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(made)]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=True)
    return made


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("page", ["readme", "airflow", "state-machine"])
def test_a_diagram_is_drawn_without_a_network(browser: Browser, site: Path, page: str, theme: str) -> None:
    context = browser.new_context(offline=True, color_scheme="dark" if theme == "dark" else "light")
    asked: list[str] = []
    try:
        opened = context.new_page()
        opened.on("request", lambda request: asked.append(request.url))
        opened.goto((site / f"{page}.html").as_uri())
        diagram = opened.locator("div.mermaid")  # the theme's, where it was source before
        diagram.wait_for(timeout=60_000)
        box = diagram.bounding_box()
        assert box
        assert box["height"] > 50
        assert opened.locator("pre.mermaid").count() == 0
        assert [url for url in asked if not url.startswith("file:")] == []
    finally:
        context.close()
