"""Which PostgreSQL and which Kafka the local stack runs, and what the support matrix says of versions."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from offset_ledger.errors import ConfigurationError, StackError
from offset_ledger.postgres.ledger.database import OLDEST
from offset_ledger_kit.sandbox import postgres
from offset_ledger_kit.sandbox.jars import KAFKA_VERSION, broker_bundle, kafka_version
from offset_ledger_kit.sandbox.postgres import binary, locale_options, major_version
from tests.matrix.components import KAFKA, POSTGRES, POSTGRES_PACKAGED, PYTHON, TESTS, candidates
from tests.matrix.table import BEGIN, END, HEAD, Row, read, replace_row, write
from tests.paths import ROOT

NEWER = Row("Kafka", "4.2.0", "2026-01-01", "3 passed")


@pytest.fixture
def page(tmp_path: Path) -> Path:
    made = tmp_path / "page.md"
    made.write_text(f"before\n{BEGIN}\n{HEAD}{END}\nafter\n")
    return made


def program(folder: Path, name: str, said: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\necho '{said}'\n")
    (folder / name).chmod(0o755)


# -- PostgreSQL ------------------------------------------------------------------------------------------------


def test_the_packaged_postgres_is_that_of_the_matrix() -> None:
    assert major_version(binary("postgres")) == int(POSTGRES_PACKAGED)
    assert "--locale-provider=builtin" in locale_options()


def test_an_older_initdb_is_asked_for_a_locale_of_the_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OFFSET_LEDGER_POSTGRES_BIN", str(tmp_path))
    monkeypatch.setattr(postgres, "system_user", lambda: None)
    program(tmp_path, "initdb", "initdb (PostgreSQL) 16.11")
    assert (binary("initdb"), locale_options()) == (str(tmp_path / "initdb"), ["--locale=C.UTF-8"])


def test_a_folder_without_the_program_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OFFSET_LEDGER_POSTGRES_BIN", str(tmp_path))
    with pytest.raises(StackError, match="has no program postgres; let OFFSET_LEDGER_POSTGRES_BIN name the folder"):
        binary("postgres")


def test_another_program_is_not_taken_for_postgres() -> None:
    true = shutil.which("true")
    assert true
    with pytest.raises(StackError, match="is no program of PostgreSQL"):
        major_version(true)


# -- Kafka -----------------------------------------------------------------------------------------------------


def test_the_version_of_the_brokers_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OFFSET_LEDGER_KAFKA_VERSION", raising=False)
    assert kafka_version() == KAFKA_VERSION
    monkeypatch.setenv("OFFSET_LEDGER_KAFKA_VERSION", "3.9.1")
    assert kafka_version() == "3.9.1"
    monkeypatch.setenv("OFFSET_LEDGER_KAFKA_VERSION", "latest")
    with pytest.raises(ConfigurationError, match=r"a version of Kafka such as .*, found 'latest'"):
        kafka_version()


def test_only_brokers_of_3_need_the_classes_of_log4j_1() -> None:
    old, new = ({artifact.name for artifact in broker_bundle(version).artifacts} for version in ("3.9.1", "4.2.0"))
    assert old - new == {"log4j-1.2-api"}


# -- the matrix ------------------------------------------------------------------------------------------------


def test_the_support_matrix_has_every_version_once_with_its_result() -> None:
    rows = read(ROOT / "docs/support.md")
    assert [(row.component, row.version) for row in rows] == [(each.component, each.version) for each in candidates()]
    said = re.compile(r"\d+ passed(, \d+ skipped)?|not run: \S.*")
    assert [row for row in rows if not said.fullmatch(row.result)] == []


def test_the_versions_are_those_that_the_project_says() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    assert re.findall(r'"Programming Language :: Python :: ([\d.]+)"', project) == list(PYTHON)
    last = int(PYTHON[-1].split(".")[1])
    assert f'requires-python = ">={PYTHON[0]},<3.{last + 1}"' in project
    assert [int(version) for version in (*POSTGRES, POSTGRES_PACKAGED)] == list(
        range(OLDEST, int(POSTGRES_PACKAGED) + 1)
    )
    assert KAFKA_VERSION in KAFKA


def test_a_row_takes_the_place_of_the_one_of_its_version(page: Path) -> None:
    write(page, [Row("Kafka", "3.9.1", "2026-01-01", "2 passed"), NEWER])
    again = Row("Kafka", "3.9.1", "2026-01-03", "not run: could not fetch")
    replace_row(page, again)
    assert read(page) == [again, NEWER]
    assert page.read_text().startswith("before\n")
    assert page.read_text().endswith(f"{END}\nafter\n")


def test_the_tests_of_the_matrix_are_there() -> None:
    named = [each.removeprefix("--deselect=") for tests in TESTS.values() for each in tests]
    for file, _, test in (each.partition("::") for each in named):
        assert (ROOT / file).exists(), file
        assert not test or f"def {test}(" in (ROOT / file).read_text(), test
