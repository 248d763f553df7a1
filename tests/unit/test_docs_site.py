"""The site of the documentation: links lead to its pages, the reference is whole, and it builds strictly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import playwright
import pytest
from docs_site import generated, links
from docs_site.slugs import slugify

import offset_ledger
from tests.paths import ROOT


@pytest.mark.parametrize(
    ("page", "link", "leads_to"),
    [
        ("docs/spark.md", "formats.md#avro", "formats.md#avro"),
        ("docs/spark.md", "../README.md#try-it", "readme.md#try-it"),
        ("docs/spark.md", "../src/offset_ledger/errors.py", "source/src/offset_ledger/errors.py.md"),
        ("docs/adr/0001-decode-with-msgspec.md", "../semantics.md", "../semantics.md"),
        ("docs/adr/0001-decode-with-msgspec.md", "../../dags/ingest.py", "../source/dags/ingest.py.md"),
        ("docs/architecture.md", "../src/offset_ledger/postgres/sql/", "source/src/offset_ledger/postgres/sql.md"),
        ("README.md", "docs/spark.md", "spark.md"),
        ("README.md", "examples/README.md", "examples.md"),
        ("examples/README.md", "clicks.yaml", "source/examples/clicks.yaml.md"),
        ("README.md", "docs/adr/", "adr/index.md"),
        ("README.md", "docs/pictures/trigger-form.png", "pictures/trigger-form.png"),
        ("README.md", "https://keepachangelog.com", "https://keepachangelog.com"),
        ("README.md", "no/such/file", "no/such/file"),
    ],
)  # fmt: skip
def test_a_link_of_the_repository_leads_to_the_same_place_on_the_site(page: str, link: str, leads_to: str) -> None:
    assert links.rewritten(f"see [it]({link}).", page, ROOT) == f"see [it]({leads_to})."


def test_links_in_code_stay() -> None:
    fence = "```\n[a](../README.md)\n```"
    assert links.rewritten(f"[a](../README.md)\n{fence}\n[a](../README.md)", "docs/spark.md", ROOT) == (
        f"[a](readme.md)\n{fence}\n[a](readme.md)"
    )


def test_the_reference_has_every_verb_and_every_public_name() -> None:
    page = generated.command_line()
    assert all(f"\n## {name}\n" in page for name in ("ingest", "stack", "accept topic"))
    named = {line.rpartition(".")[2] for line in generated.python_api().splitlines() if line.startswith(":::")}
    assert named == set(offset_ledger.__all__) - {"__version__"}


def test_anchors_are_those_of_github() -> None:
    assert slugify("`lab ordering`: what & when?", "-") == "lab-ordering-what--when"


@pytest.mark.full
def test_the_site_builds_strictly(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    found_by_search = json.loads((tmp_path / "site/search/search_index.json").read_text())["docs"]
    decisions = {each.get("boost") for each in found_by_search if each["location"].startswith("adr/")}
    assert decisions == {0.2}, "decisions come after the pages that say what is so today"
    assert (tmp_path / "site" / "reference" / "cli.html").is_file()
    assert searched(tmp_path / "site", "primary key column name")[0].startswith("pipeline-file.html")
    loading = {page.name for page in (tmp_path / "site").glob("*.html") if "mermaid.min.js" in page.read_text()}
    assert loading == {"index.html", "readme.html", "airflow.html", "state-machine.html"}, (
        "Mermaid is large: with diagrams alone"
    )


def searched(site: Path, words: str) -> list[str]:
    """The pages that the search of the site finds for these words, the best first."""
    node = Path(playwright.__file__).parent / "driver/node"
    command = [node, ROOT / "tests/unit/site_search.js", site, words]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [str(location) for location in json.loads(found)]
