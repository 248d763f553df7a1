"""The rules in docs/audit.md and the rules agree."""

from __future__ import annotations

import re

from offset_ledger.operations.audit.rules import RULES
from tests.paths import ROOT

DOCS = ROOT / "docs" / "audit.md"
PARTS = re.compile(r"\*\*(error|warning|info)\*\*.*\sRisk:\s.*\sSource:\s\[", re.DOTALL)
"""When a rule reports with which severity, the risk, and where Kafka says so."""


def test_the_docs_explain_every_rule_in_its_order() -> None:
    _, *found = re.split(r"^### `([a-z-]+)`$", DOCS.read_text(), flags=re.MULTILINE)
    assert found[::2] == [rule.name for rule in RULES]
    for name, text in zip(found[::2], found[1::2], strict=True):
        assert PARTS.search(text), name
