"""The names that ``offset_ledger`` gives: documented, typed, and imported only when they are used."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys

import pytest

import offset_ledger
from offset_ledger import errors
from tests.paths import ROOT

_CLIENTS = ("confluent_kafka", "kafka", "psycopg2")
_HEAVY = (*_CLIENTS, "airflow", "great_expectations", "msgspec", "numpy", "pyarrow", "pyspark", "yaml")
_IMPORTED = f"import json, sys, offset_ledger; print(json.dumps([m for m in {_HEAVY!r} if m in sys.modules]))"


def test_importing_the_package_imports_nothing_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", _IMPORTED], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


def test_the_client_of_a_registry_is_not_imported_before_one_is_asked() -> None:
    operations = [
        f"offset_ledger.operations.{each}" for each in ("check.diff", "doctor.run", "init.run", "status.overview")
    ]
    modules = ", ".join([*operations, "offset_ledger.interfaces.page.app"])
    asked = f"import sys, {modules}; print('httpx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_every_name_is_there_and_what_type_checkers_see() -> None:
    assert all(getattr(offset_ledger, name) is not None for name in offset_ledger.__all__)
    tree = ast.parse((ROOT / "src" / "offset_ledger" / "__init__.py").read_text())
    (checked,) = (node for node in tree.body if isinstance(node, ast.If))
    typed = [alias.name for node in checked.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert sorted({*typed, *errors.names()} - {"*"}) == sorted(offset_ledger.__all__)
    assert (ROOT / "src" / "offset_ledger" / "py.typed").exists()


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(offset_ledger, "no_such_name")


def test_every_error_is_public() -> None:
    known = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert known <= set(offset_ledger.__all__)


def test_the_reference_names_everything_but_errors_and_no_other() -> None:
    text = (ROOT / "docs" / "api.md").read_text().partition("## Errors")[0]
    rows = re.findall(r"^- (`.+?`): ", text, flags=re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)[^`]*`", row)}
    assert named == {name for name in offset_ledger.__all__ if not hasattr(errors, name)}


@pytest.mark.parametrize("family", [errors.TransientError, errors.LostRange])
def test_the_reference_names_the_errors_of_a_family(family: type[Exception]) -> None:
    text = (ROOT / "docs" / "api.md").read_text()
    (members,) = re.findall(rf"^\| `{family.__name__}` \| .+ \| (.+) \|$", text, flags=re.MULTILINE)
    kinds = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, family)]
    assert re.findall(r"`(\w+)`", members) == sorted(kind.__name__ for kind in kinds if kind is not family)
