"""The labs in small, on real servers: what they claim to show is what they show."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from offset_ledger.failpoints import Failpoint
from offset_ledger.labs.lossy import Loss
from offset_ledger.labs.ordering import Ordering, weigh
from offset_ledger.labs.replication import replication
from offset_ledger.labs.semantics import Bench, Semantics, semantics
from tests.fixtures.servers import Servers


def quiet(_: str) -> None:
    """Progress that nobody reads."""


def test_at_most_once_loses_at_least_once_doubles_and_the_pipeline_does_neither(
    servers: Servers, topic_name: Callable[[], str], tmp_path: Path
) -> None:
    # Killed before Spark starts: the fault suite kills it everywhere else.
    bench = Bench(servers.kafka, servers.postgres, {}, tmp_path, topic_name(), 7, quiet)
    most, least, pipeline = semantics(bench, events=300, kills=1, places=[Failpoint.AFTER_PLAN])
    assert (most.reader, most.killed, most.duplicated, most.lost > 0) == ("at most once", 1, 0, True)
    assert (least.reader, least.killed, least.lost, least.duplicated > 0) == ("at least once", 1, 0, True)
    assert pipeline == Semantics("offset-ledger", 300, 1, 0, 0)


@pytest.mark.timeout(300)
def test_only_acks_all_keeps_what_was_acknowledged_when_the_leader_dies() -> None:
    records = 5
    with tempfile.TemporaryDirectory(prefix="offset-ledger-") as folder:
        found = {(row.acks, row.min_insync): row for row in replication(Path(folder), quiet, records)}
    assert {key: row.lost for key, row in found.items() if key[0] == "all"} == {("all", n): 0 for n in (1, 2, 3)}
    assert {key: row.lost >= records for key, row in found.items() if key[0] == 1} == {(1, n): True for n in (1, 2, 3)}
    # The first topic's may still travel with a fetch that waited: nothing answers to acks=0, so nothing separates them.
    assert sum(row.lost for key, row in found.items() if key[0] == 0) > 0
    refused = {key: (row.refused_one_away, row.refused_two_away) for key, row in found.items()}
    without = {(acks, n): (0, 0) for acks in (0, 1) for n in (1, 2, 3)}
    assert refused == {
        **without,
        ("all", 1): (0, 0),
        ("all", 2): (0, records),
        ("all", 3): (records, records),
    }
    everything = {row.sent for row in found.values()}
    assert everything == {4 * records + 1}


def test_idempotence_keeps_order_and_number_through_what_the_network_loses() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "offset_ledger.cli", "lab", "ordering", "--seed", "5", "--json"],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    found = {(row["idempotence"], row["loss"]): row for row in json.loads(done.stdout)}
    assert all((row["sent"], row["acknowledged"], row["lost"]) == (400, 400, 0) for row in found.values()), found
    for loss in Loss:
        assert (found[True, loss]["duplicated"], found[True, loss]["reordered"]) == (0, 0)
    assert found[False, "acknowledgement"]["duplicated"] > 0
    assert found[False, "request"]["reordered"] > 0


RIGHT = Ordering(True, Loss.REQUEST, sent=4, acknowledged=4, lost=0, duplicated=0, reordered=0)


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ([0, 1, 2, 3], RIGHT),
        ([0, 2, 1, 3], replace(RIGHT, reordered=1)),
        ([0, 1, 2, 1, 2, 3], replace(RIGHT, duplicated=2)),
        ([0, 3, 1, 3], replace(RIGHT, lost=1, duplicated=1, reordered=1)),
    ],
)
def test_a_log_is_weighed_by_the_numbers_in_it(log: list[int], expected: Ordering) -> None:
    assert weigh(True, Loss.REQUEST, 4, {0, 1, 2, 3}, log) == expected
