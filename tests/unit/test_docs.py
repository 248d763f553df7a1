"""The documents and the code agree: every error has its page of help, every link leads somewhere."""

from __future__ import annotations

import ast
import re
import tomllib
from datetime import date
from pathlib import Path

import pytest
from docs_site import generated

from offset_ledger import errors
from offset_ledger.base.version import __version__
from offset_ledger.decoding.outcome import Code
from offset_ledger.postgres.ledger.database import OLDEST
from tests.paths import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")])
FAMILIES = {"OffsetLedgerError", "TerminalError", "TransientError"}
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as its readers' tools make them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_error_has_its_heading_in_the_runbook() -> None:
    raised = {
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.OffsetLedgerError)
    }
    headings = set(re.findall(r"^### (\w+)$", (ROOT / "docs/runbook.md").read_text(), re.M))
    assert raised - FAMILIES - headings == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    for link in LINK.findall(re.sub(r"```.*?```", "", page.read_text(), flags=re.S)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        to = (page.parent / path) if path else page
        assert to.exists(), f"{link} leads nowhere"
        if anchor and to.suffix == ".md":
            assert anchor in anchors(to), f"{link}: no such heading"


def test_every_page_is_in_the_index() -> None:
    named = (ROOT / "docs/index.md").read_text()
    missing = [page.name for page in ROOT.glob("docs/*.md") if page.name != "index.md" and page.name not in named]
    assert missing == []


def test_every_decision_is_in_the_index() -> None:
    named = (ROOT / "docs/adr/index.md").read_text()
    assert [page.name for page in ROOT.glob("docs/adr/[0-9]*.md") if page.name not in named] == []


def test_every_decision_has_its_number_and_its_title_in_the_index() -> None:
    by_subject = (ROOT / "docs/adr/index.md").read_text()
    rows = sorted(re.findall(r"^- \[(\d{4})\]\((\d{4})-\S+\) (.+)$", by_subject, re.M))
    pages = sorted(ROOT.glob("docs/adr/[0-9]*.md"))
    headings = [page.read_text().partition("\n")[0] for page in pages]
    assert [f"# {number}: {title}" for number, _, title in rows] == headings
    numbers = [page.name[:4] for page in pages]
    assert [number for _, number, _ in rows] == numbers
    replaced = re.findall(r"^- (\d{4}), by \[(\d{4})\]", by_subject, re.M)
    assert {by for _, by in replaced} <= set(numbers)
    comments = re.findall(r"^- (\d{4}), in \[[\w.]+\]\(\.\./\.\./\S+\): ", by_subject, re.M)
    every = sorted([*numbers, *(number for number, _ in replaced), *comments])
    assert every == [f"{n:04}" for n in range(1, len(every) + 1)]


def test_a_function_is_in_the_file_that_a_page_links_for_it() -> None:
    for page in PAGES:
        for name, file in re.findall(r"\[`(\w+)`\]\((\S+\.py)\)", page.read_text()):
            source = (page.parent / file).read_text()
            assert re.search(rf"\b(def|class) {name}\b", source), f"{page.name}: {name} is not in {file}"


def test_the_page_about_production_names_every_variable() -> None:
    code = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    page = (ROOT / "docs/production.md").read_text()
    asked = {name.rstrip("_") for name in re.findall(r"OFFSET_LEDGER_[A-Z_]+", code)} - {"OFFSET_LEDGER"}
    assert {name for name in asked if f"`{name}`" not in page} == set()


def test_the_documents_name_the_oldest_postgres() -> None:
    for page in ("README.md", "docs/production.md"):
        text = (ROOT / page).read_text()
        assert re.findall(r"(?:Postgres|PostgreSQL)[ |:]+(\d+) or newer", text) == [str(OLDEST)], page


def test_the_newest_section_of_the_changelog_is_that_of_the_version() -> None:
    (newest, day), *_ = re.findall(r"^## \[(.*)\] - (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert newest == __version__
    assert day == "unreleased" or date.fromisoformat(day)


def test_the_page_of_the_command_line_has_every_verb_as_help_lists_it() -> None:
    assert generated.verb_list() in (ROOT / "docs/command-line.md").read_text()


def test_the_readme_is_read_in_one_sitting() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= 1000


def test_the_readme_names_the_command_that_ci_runs() -> None:
    (command,) = re.findall(r"^exec (.+)$", (ROOT / ".ci/run").read_text(), re.M)
    assert command in (ROOT / "README.md").read_text()


def drawn_tree() -> dict[str, str]:
    """Each package of the tree in architecture.md, in its order, with what is said of it there."""
    (tree,) = re.findall(r"^```\n(src/.+?)^```", (ROOT / "docs/architecture.md").read_text(), re.M | re.S)
    path: list[str] = []
    said = {}
    for indent, name, text in re.findall(r"^( *)([\w/]+)/ *(.*)$", tree, flags=re.MULTILINE):
        path[len(indent) // 2 :] = [name.removeprefix("src/")]
        said[".".join(path)] = text
    return said


def test_the_architecture_says_of_each_package_what_the_package_says_of_itself() -> None:
    drawn = {name: text for name, text in drawn_tree().items() if text}
    packages = [path.parent for path in (ROOT / "src").glob("*/**/__init__.py") if path.parent.parent != ROOT / "src"]
    said = {
        ".".join(path.relative_to(ROOT / "src").parts): ast.get_docstring(ast.parse((path / "__init__.py").read_text()))
        for path in packages
    }
    assert {name: (said[name] or "").split("\n")[0].replace("``", "") for name in drawn} == drawn
    assert {name for name in said if name.count(".") == 1} <= drawn.keys()


def test_the_architecture_lists_the_packages_in_the_order_that_lint_holds() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    drawn = list(drawn_tree())
    for contract in contracts:
        for container in contract.get("containers", ()):
            order = [f"{container}.{name}" for layer in reversed(contract["layers"]) for name in layer.split(" | ")]
            inside = [name for name in drawn if name.rpartition(".")[0] == container]
            assert inside == [name for name in order if name in inside]


def test_the_page_about_quarantine_has_every_code_once() -> None:
    (listed,) = re.findall(r"Codes, and who refuses:\n\n(.+?)\n\n", (ROOT / "docs/quarantine.md").read_text(), re.S)
    cells = re.findall(r"^- (.+?): ", listed, re.M)
    assert sorted(code for cell in cells for code in re.findall(r"`(\w+)`", cell)) == sorted(Code)
