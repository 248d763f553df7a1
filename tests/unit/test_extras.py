"""An extra that is missing is named by the line that fails, and each that is named exists."""

from __future__ import annotations

import re
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from offset_ledger.base import extras
from offset_ledger.base.extras import MODULES, has_module, require
from offset_ledger.errors import ConfigurationError
from tests.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DECLARED = PROJECT["optional-dependencies"]
LOGINS = {"kerberos", "msk"}


def test_what_is_missing_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    require("gx", "a suite")
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    with pytest.raises(ConfigurationError) as raised:
        require("gx", "a suite")
    assert str(raised.value) == (
        "a suite needs great_expectations, which is not installed; run pip install 'offset-ledger[gx]'"
    )


def test_a_module_is_known_without_importing_what_it_is_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    files = {"plain_one": "raise SystemExit", "moving_one": f"__path__ = [{str(tmp_path / 'elsewhere')!r}]"}
    for package, text in files.items():
        (tmp_path / package / "inner").mkdir(parents=True)
        (tmp_path / package / "__init__.py").write_text(text)
        (tmp_path / package / "inner" / "module.py").touch()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "moved.py").touch()
    there = ("plain_one", "plain_one.inner", "plain_one.inner.module", "moving_one.moved", "sys", "os.path")
    assert {name: has_module(name) for name in there} == dict.fromkeys(there, True)
    absent = ("absent_one", "absent_one.inner", "moving_one.absent", "moving_one.absent.module", "sys.absent")
    assert {name: has_module(name) for name in absent} == dict.fromkeys(absent, False)


def test_each_extra_has_a_module_that_it_installs() -> None:
    assert set(MODULES) == set(DECLARED) - {"all", "dev", "docs"}
    # There are no wheels of gssapi for Linux: it is built with the headers of MIT Kerberos.
    assert [module for module in MODULES.values() if find_spec(module) is None and module != "gssapi"] == []


def test_the_extra_all_is_everything_but_some_logins_and_the_stack_of_this_project() -> None:
    (everything,) = DECLARED["all"]
    assert set(re.split("[][,]", everything)[1:-1]) == set(MODULES) - {"local"} - LOGINS


def test_every_extra_that_code_or_page_names_exists() -> None:
    files = [*ROOT.glob("src/**/*.py"), *ROOT.glob("docs/*.md"), ROOT / "README.md", ROOT / "Dockerfile"]
    named = [name for file in files for name in re.findall(r"offset-ledger\[([a-z,-]+)\]", file.read_text())]
    assert named
    assert {extra for name in named for extra in name.split(",")} <= set(DECLARED)


def test_no_requirement_is_a_pin_but_those_of_the_local_stack() -> None:
    """A package that is added to an environment takes the versions that are there."""
    shared = [*PROJECT["dependencies"], *(line for name in set(MODULES) - {"local"} for line in DECLARED[name])]
    assert [line for line in shared if "==" in line.partition(";")[0]] == []
