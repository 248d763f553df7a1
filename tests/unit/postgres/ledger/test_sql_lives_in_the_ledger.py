"""SQL stands in ``sql``, in a folder of its owner; Postgres' own modules may hold statements of one line."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import offset_ledger

SOURCES = Path(offset_ledger.__file__).parents[1]
SQL = {"": SOURCES / "offset_ledger" / "postgres" / "sql", "offset_ledger_kit:": SOURCES / "offset_ledger_kit" / "sql"}
OWN = "offset_ledger/postgres/"
OTHER_DATABASES = "offset_ledger_kit/sandbox/"  # makes the databases of the embedded servers, and asks Airflow's
STATEMENT = re.compile(
    r"(--.*\n\s*)*(SELECT|INSERT|UPDATE|DELETE|WITH|MERGE|CREATE|ALTER|DROP|TRUNCATE|LOCK|COPY|ANALYZE)\s+\S"
)


def statements(source: str) -> Iterator[tuple[int, int, str]]:
    """First line, last line and text of every string literal that begins like a statement; docstrings are none."""
    tree = ast.parse(source)
    passed = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    passed |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) in passed or not isinstance(node, (ast.Constant, ast.JoinedStr)):
            continue
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)
        if STATEMENT.match(text.lstrip()):
            yield node.lineno, node.end_lineno or node.lineno, text


def found(*folders: str, outside: bool = False) -> list[tuple[str, int, int, str]]:
    paths = {str(path.relative_to(SOURCES)): path for path in sorted(SOURCES.rglob("*.py"))}
    chosen = {name: path for name, path in paths.items() if name.startswith(folders) is not outside}
    return [(name, *each) for name, path in chosen.items() for each in statements(path.read_text())]


def test_no_sql_statement_is_outside_of_the_ledger() -> None:
    assert found(OWN, OTHER_DATABASES, outside=True) == []


def test_the_ledger_holds_statements_of_one_line_only() -> None:
    held = found(OWN)
    assert held
    assert [each for each in held if each[1] != each[2]] == []


def test_every_file_has_an_owner_and_is_used() -> None:
    code = "".join(path.read_text() for path in SOURCES.rglob("*.py"))
    names = {f"{of}{path.relative_to(sql).with_suffix('')}" for of, sql in SQL.items() for path in sql.rglob("*.sql")}
    assert {name for name in names if "/" not in name} == set()
    read = r"(?:named_sql\(|cursor\.run\(|read_rows\(\s*cursor,)\s*"
    whole = set(re.findall(read + r'"([^"]+)"', code))
    begun = re.findall(read + r'f"([^"{]+)', code)
    folders = (
        "migrations/", "verify/", "verify_append/", "verify_beside/", "verify_topic/",
    )  # read as a whole, in the order of their numbers  # fmt: skip
    assert {name for name in names - whole if not name.startswith((*begun, *folders))} == set()
    assert whole <= names


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ('x = "SELECT 1"', 1), ('x = f"UPDATE {table} SET a = 1"', 1), ('x = "-- why\\nDELETE FROM a"', 1),
        ('"""Create nothing."""\nx = "Select a pipeline"', 0), ('"""SELECT is in a docstring."""', 0),
    ],
)  # fmt: skip
def test_a_statement_is_known_by_its_first_word(source: str, count: int) -> None:
    assert len(list(statements(source))) == count
