"""A name says what a thing is: ``found`` and ``told`` say only how one came by it, of whatever it is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import offset_ledger
from tests.paths import ROOT

PACKAGE = Path(offset_ledger.__file__).parent
EMPTY = {"found", "told"}
WORD = re.compile(rf"\b({'|'.join(EMPTY)})\b")
KEPT = {"AuditFinding", "Claim", "RuleStatus"}  # the field is a key of JSON or a column of SQL


def bindings(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of every variable, argument, function and class, without the fields of the classes in KEPT."""
    tree = ast.parse(source)
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name in KEPT]
    fields = {id(each.target) for node in classes for each in node.body if isinstance(each, ast.AnnAssign)}
    for node in ast.walk(tree):
        match node:
            case (
                ast.Name(id=name, ctx=ast.Store())
                | ast.arg(arg=name)
                | ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
                | ast.alias(asname=str(name))
                | ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
                | ast.MatchMapping(rest=str(name))
            ) if id(node) not in fields:
                yield node.lineno, name


def test_no_name_is_empty() -> None:
    """What is found or told has a name of its own, which spares the reader the search for it."""
    empty = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if WORD.search(path.read_text())  # to parse the others takes time
        for line, name in sorted(bindings(path.read_text()))
        if name in EMPTY
    ]
    assert not empty, "name what it is:\n" + "\n".join(empty)


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("found = told = 1", 2), ("for found, told in x:\n    pass", 2),
        ("def told(found, *, told=1):\n    return found", 3), ("x = lambda found: [told for told in found]", 2),
        ("import x as found", 1), ("class Claim:\n    found: str", 0), ("class Other:\n    found: str", 1),
        ('x = f(found=1)\ny = x.found or {"told": told}', 0),
    ],
)  # fmt: skip
def test_a_name_is_known_where_it_is_given(source: str, count: int) -> None:
    assert len([name for _, name in bindings(source) if name in EMPTY]) == count
