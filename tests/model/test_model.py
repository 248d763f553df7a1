"""Small worlds are sound, every defect is caught by its statement, and the model is no part of what it checks."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tests.model
from offset_ledger.model.states import State as BatchState
from tests.model import kafka
from tests.model.defects import CAUGHT, FENCED, GONE_BACK, SMALL_WORLDS
from tests.model.explore import Walk, explore
from tests.model.invariants import DATABASE, STATE, TRANSITION, allowed, broken
from tests.model.rules import Defect, Rules, World
from tests.model.state import State
from tests.model.stories import OF_AN_ATTEMPT, OTHERS, violation
from tests.paths import ROOT

FILES = [*Path(kafka.__file__).parent.glob("*.py")]
PAGE = (ROOT / "docs/model.md").read_text()


@pytest.mark.parametrize("world", SMALL_WORLDS, ids=lambda world: world.name)
def test_a_small_world_is_sound(world: World) -> None:
    walk = explore(world)
    assert (walk.violated, walk.never_taken) == (None, []), "\n".join(violation(walk))


def test_every_defect_is_caught_somewhere() -> None:
    assert set(CAUGHT) == set(Defect)


@pytest.mark.parametrize("defect", Defect, ids=lambda defect: defect.name.lower())
def test_a_defect_is_caught_by_its_statement(defect: Defect) -> None:
    world, statement = CAUGHT[defect]
    walk = explore(world, defect)
    assert walk.violated == statement


def test_a_story_is_told_in_plain_words() -> None:
    *_, beginning, end = violation(explore(FENCED, Defect.SEAL_NOT_FENCED))
    assert beginning == "   5. attempt 2 claims batch 1 (epoch 2)"
    assert end == "   6. attempt 1, which was paused until now, seals batch 1: it is staged"


def test_a_story_can_be_walked_step_by_step() -> None:
    walk = explore(GONE_BACK, Defect.LETTERS_FORGOTTEN)
    rules, state = Rules(GONE_BACK, Defect.LETTERS_FORGOTTEN), walk.first
    assert state is not None
    for each in walk.story:
        assert broken(GONE_BACK, state) == []
        state = rules.step(state, each.name, each.parameters)
    assert broken(GONE_BACK, state) == ["a_letter_is_sent_once"]
    with pytest.raises(LookupError, match="accept topic"):
        rules.step(state, "accept topic", (0, "recreated"))


def test_a_transition_that_the_diagram_does_not_have_is_not_allowed() -> None:
    before = end_of(explore(FENCED, Defect.CURSOR_APART))
    (batch,) = before.db.batches
    reopened = before._replace(db=before.db.with_batch(batch._replace(state=BatchState.STAGING)))
    assert allowed(FENCED, before, before) == []
    assert allowed(FENCED, before, reopened) == ["batches_move_as_the_diagram_says"]


def end_of(walk: Walk) -> State:
    return walk.story[-1].state


def test_the_model_imports_only_the_vocabulary() -> None:
    ours = {"offset_ledger.model.states", *(f"tests.model.{path.stem}" for path in FILES), "tests.model", "tests.paths"}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or "."] if isinstance(node, ast.ImportFrom) else []
            assert {name for name in names if name.split(".")[0] in ("", "offset_ledger", "tests")} <= ours, path.name


def test_the_page_names_every_action_and_statement() -> None:
    for name in [*OF_AN_ATTEMPT, *OTHERS, *(each.__name__ for each in (*DATABASE, *STATE, *TRANSITION))]:
        if name not in ("commit again", "move cursor"):  # those of defects
            assert f"`{name}`" in f"{PAGE}\n{' '.join(str(tests.model.__doc__).split())}", name
