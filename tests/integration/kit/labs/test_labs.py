"""The labs in small, on real servers: what they claim to show is what they show."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.base.failpoints import Failpoint
from offset_ledger_kit.cli.main import main
from offset_ledger_kit.labs import ordering as order_lab
from offset_ledger_kit.labs import semantics as semantics_lab
from offset_ledger_kit.labs import trial
from offset_ledger_kit.labs.ordering import CASES, Fault, Ordering, Producer, compare
from offset_ledger_kit.labs.replication import replication
from offset_ledger_kit.labs.semantics import Bench, Semantics, semantics
from offset_ledger_kit.labs.trial import Fate, Trial, TrialStep
from tests.fixtures.servers import Servers
from tests.fixtures.topic_bench import quiet

pytestmark = [pytest.mark.full, pytest.mark.minutes(1)]


def test_at_most_once_loses_at_least_once_doubles_and_the_pipeline_does_neither(
    servers: Servers, topic_name: Callable[[], str], tmp_path: Path
) -> None:
    # Killed before Spark starts: the fault suite kills it everywhere else.
    plan = replace(semantics_lab.SemanticsPlan.draw(7, events=300, kills=1), places=(Failpoint.AFTER_PLAN,))
    bench = Bench(servers.kafka, servers.postgres, {}, tmp_path, topic_name(), quiet)
    before, after, pipeline = semantics(bench, plan)  # by when they commit their offsets
    assert (before.reader, before.killed, before.duplicated) == ("at most once", 1, ())
    assert set(before.lost) < before.produced
    assert (after.reader, after.killed, after.lost) == ("at least once", 1, ())
    assert before.lost
    assert set(after.duplicated) < after.produced
    assert after.duplicated
    assert pipeline == Semantics("offset-ledger", frozenset(plan.events), 1, (), ())


@pytest.mark.timeout(900)
def test_what_each_acks_and_min_insync_keeps_loses_and_refuses() -> None:
    plan = trial.TrialPlan.draw(3, limit=8)
    with tempfile.TemporaryDirectory(prefix="offset-ledger-") as folder:
        results = {(row.acks, row.min_insync): row.fates for row in replication(plan, Path(folder), quiet)}
    assert set(results) == {(acks, min_insync) for acks in (0, 1, "all") for min_insync in (1, 2, 3)}
    sent = {step: frozenset(values) for step, values in plan.values.items()}
    # On a slow machine the lab sends these more than once, with a mark.
    (sent[TrialStep.ALONE],) = {fates[TrialStep.ALONE].sent for fates in results.values()}
    assert {value.split(" again")[0] for value in sent[TrialStep.ALONE]} == set(plan.values[TrialStep.ALONE])

    def words(acks: int | str, min_insync: int) -> list[str]:
        """One word for all records of each step."""
        words_of_steps = []
        for step, fate in results[acks, min_insync].items():
            every = {
                "kept": fate.acknowledged - fate.lost,
                "lost": fate.lost,
                "not acknowledged": fate.refused | fate.unanswered,
            }
            assert sent[step] in every.values(), (acks, min_insync, fate)
            words_of_steps += [word for word, records in every.items() if records == sent[step]]
        return words_of_steps

    assert words("all", 1) == ["kept", "kept", "kept", "lost"]  # the last on the word of one copy, and lost with it
    assert words("all", 2) == ["kept", "kept", "kept", "not acknowledged"]
    # Of what went to the leader that died, the next one's refusal is the last word, or there is none in time.
    assert words("all", 3) == ["kept", "not acknowledged", "not acknowledged", "not acknowledged"]
    for min_insync, step in ((2, TrialStep.TWO_AWAY), (3, TrialStep.ONE_AWAY), (3, TrialStep.TWO_AWAY)):
        assert results["all", min_insync][step].refused == sent[step]
    assert all(fate.readable == sent[step] for step, fate in results["all", 1].items())
    for min_insync in (1, 2, 3):  # min.insync.replicas binds acks=all only
        assert words(1, min_insync) == ["kept", "lost", "kept", "lost"]
        # Nobody says when a record of acks=0 has arrived, so what is lost of those sent between deaths may differ.
        silent = results[0, min_insync]
        assert all(fate.acknowledged == sent[step] for step, fate in silent.items())
        assert {step for step, fate in silent.items() if fate.lost == sent[step]} >= {
            TrialStep.ALONE,
            TrialStep.TWO_AWAY,
        }
        assert silent[TrialStep.IN_SYNC].lost == frozenset()


def test_the_replication_lab_names_each_fate_by_its_step() -> None:
    plan = trial.TrialPlan.draw(1, limit=2)
    made = Trial("all", 1)
    values = {step: list(sent) for step, sent in plan.values.items()}
    made.acknowledged[TrialStep.IN_SYNC] = set(values[TrialStep.IN_SYNC])
    made.acknowledged[TrialStep.TWO_AWAY] = set(values[TrialStep.TWO_AWAY])
    made.refused[TrialStep.ONE_AWAY] = set(values[TrialStep.ONE_AWAY])
    made.unanswered[TrialStep.ALONE] = set(values[TrialStep.ALONE])
    made.readable = made.stored = set(values[TrialStep.IN_SYNC])
    assert {step: fate.summary() for step, fate in made.fates.items()} == {
        TrialStep.IN_SYNC: f"{len(values[TrialStep.IN_SYNC])} kept",
        TrialStep.ALONE: f"{len(values[TrialStep.ALONE])} unanswered",
        TrialStep.ONE_AWAY: f"{len(values[TrialStep.ONE_AWAY])} refused",
        TrialStep.TWO_AWAY: f"{len(values[TrialStep.TWO_AWAY])} LOST",
    }
    none = frozenset[str]()
    assert Fate(frozenset("ab"), none, none, none, frozenset("b")).summary() == "1 kept, 1 LOST"
    assert made.counts()["lost"] == len(values[TrialStep.TWO_AWAY])
    assert "brokers_die" in trial.report(plan, [made]).plan


def test_idempotence_keeps_order_and_number_through_what_the_network_loses(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["kafka", "lab", "ordering", "--seed", "5", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["seed"], report["plan"]) == (5, order_lab.OrderingPlan.draw(5).as_dict())
    results = {(row["producer"], row["what_went_wrong"]): row for row in report["rows"]}
    assert set(results) == set(CASES)
    assert all((row["sent"], row["acknowledged"], row["lost"]) == (400, 400, 0) for row in results.values()), results
    for case in CASES:
        guarded = case[0] is not Producer.PLAIN and case != (Producer.IDEMPOTENT, Fault.REPLACED)
        assert not guarded or (results[case]["duplicated"], results[case]["reordered"]) == (0, 0)
    assert results[Producer.PLAIN, Fault.ACKNOWLEDGEMENT]["duplicated"] > 0
    assert results[Producer.PLAIN, Fault.REQUEST]["reordered"] > 0
    again = Producer.IDEMPOTENT, Fault.REPLACED  # idempotence ends with its producer
    assert results[again]["duplicated"] == order_lab.OrderingPlan.draw(5).breaks[again]


@pytest.mark.parametrize("plan", [trial.TrialPlan, order_lab.OrderingPlan, semantics_lab.SemanticsPlan])
def test_a_seed_draws_the_same_plan_again_and_another_seed_another(plan: Any) -> None:
    assert plan.draw(1) == plan.draw(1)
    assert plan.draw(1).as_dict() != plan.draw(2).as_dict()


ALL = frozenset(range(4))
RIGHT = Ordering(*CASES[0], sent=4, acknowledged=ALL, lost=(), duplicated=(), reordered=())


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ([0, 1, 2, 3], RIGHT),
        ([0, 2, 1, 3], replace(RIGHT, reordered=(1,))),
        ([0, 1, 2, 1, 2, 3], replace(RIGHT, duplicated=(1, 2))),
        ([0, 3, 1, 3], replace(RIGHT, lost=(2,), duplicated=(3,), reordered=(1,))),
    ],
)
def test_a_log_is_compared_by_the_numbers_in_it(log: list[int], expected: Ordering) -> None:
    assert compare(*CASES[0], 4, ALL, log) == expected
