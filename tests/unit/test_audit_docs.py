"""The table of rules in docs/audit.md and the rules agree."""

from __future__ import annotations

import re
from pathlib import Path

from offset_ledger.audit.rules import RULES

DOCS = Path(__file__).resolve().parents[2] / "docs" / "audit.md"


def test_the_docs_list_every_rule_in_its_order() -> None:
    listed = re.findall(r"^\| `([a-z-]+)` \|", DOCS.read_text(), re.MULTILINE)
    assert listed == [rule.name for rule in RULES]
