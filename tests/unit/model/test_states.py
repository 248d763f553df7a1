"""The state machine stands in three places; they agree."""

from __future__ import annotations

import re
from importlib.resources import files

from offset_ledger.model.states import TRANSITIONS, BatchKind, State
from tests.paths import ROOT

SQL = files("offset_ledger.postgres").joinpath("sql", "migrations", "0001_ledger.sql").read_text()
DOCS = ROOT / "docs" / "state-machine.md"

PAIRS = {(before, after) for before, afters in TRANSITIONS.items() for after in afters}


def test_the_ledger_allows_exactly_the_transitions_of_the_code() -> None:
    constraint = SQL[SQL.index("transition_is_allowed") :]
    found = re.findall(r"\('(\w+)', '(\w+)'\)", constraint[: constraint.index("END)")])
    assert {(State(a), State(b)) for a, b in found} == PAIRS


def test_the_diagram_shows_exactly_the_transitions_of_the_code() -> None:
    found = re.findall(r"^\s+(\w+) --> (\w+)", DOCS.read_text(), re.MULTILINE)
    assert {(State(a), State(b)) for a, b in found} == PAIRS


def test_the_ledger_knows_exactly_the_states_and_kinds_of_the_code() -> None:
    state = re.search(r"state\s+text NOT NULL DEFAULT 'planned' CHECK \(state IN\s+\(([^)]*)\)", SQL)
    kind = re.search(r"CHECK \(kind IN \(('head'[^)]*)\)", SQL)
    assert state
    assert kind
    assert re.findall(r"'(\w+)'", state[1]) == [str(s) for s in State]
    assert re.findall(r"'(\w+)'", kind[1]) == [str(k) for k in BatchKind]


def test_a_batch_that_ended_leads_nowhere() -> None:
    assert {state for state in State if not TRANSITIONS[state]} == {s for s in State if not s.is_open}
