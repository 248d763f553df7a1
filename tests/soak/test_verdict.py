"""The verdict of a soak: what grows is named, what is flat, noisy or warming up is not."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from tests.soak.sampler import Sampler
from tests.soak.series import DISK, MEMORY, SECONDS, SESSIONS, Rule, judge, judge_all

NOISE = Random(7)
FLAT = [100 + NOISE.uniform(-5, 5) for _ in range(90)]
SPIKES = [100.0 + (900 if n % 4 == 3 else 0) for n in range(90)]
WARM_UP = [100 - 90 * 0.8**n for n in range(90)]


@pytest.mark.parametrize("rule", [MEMORY, DISK, SESSIONS, SECONDS])
@pytest.mark.parametrize("values", [FLAT, SPIKES, WARM_UP, [0.0] * 90, list(reversed(range(90)))])
def test_what_does_not_grow_passes(rule: Rule, values: list[float]) -> None:
    assert not judge("memory", rule, values).grew


@pytest.mark.parametrize("rule", [MEMORY, DISK, SESSIONS])
@pytest.mark.parametrize(
    "values",
    [
        [each + n for n, each in enumerate(FLAT)],  # it nearly doubles over the run
        [2.0 * n for n in range(90)],
        [100.0] * 60 + [150.0] * 30,
        [each + 3 * n for n, each in enumerate(SPIKES)],
    ],
)
def test_what_grows_is_found(rule: Rule, values: list[float]) -> None:
    assert judge("memory", rule, values).grew


def test_queries_that_take_ever_longer_are_found() -> None:
    assert judge("verify", SECONDS, [0.01 * n for n in range(90)]).grew
    assert not judge("verify", SECONDS, [0.01 + 0.0001 * n for n in range(90)]).grew  # less than a machine's own noise


def test_the_line_names_what_grew_by_how_much_and_what_is_allowed() -> None:
    found = judge("exporter memory", MEMORY, [100.0] * 30 + [200.0] * 30 + [300.0] * 30)
    assert str(found) == (
        "exporter memory grew: its median is 300 MB in the last third of the run, 200 MB in the middle third, allowed "
        "are 228 MB"
    )


def test_what_was_hardly_measured_does_not_pass() -> None:
    samples = [{"a": 1.0} | ({"b": 1.0} if n < 3 else {}) for n in range(30)]
    a, b = judge_all({"a": DISK, "b": DISK}, samples)
    assert (a.grew, b.grew) == (False, True)
    assert str(b) == "b: 3 samples are too few, 12 are needed"


PROGRAM = """
import sys, time
kept = []
print("ready", flush=True)
while True:
    time.sleep(0.02)
    if sys.argv[1] == "leaks":
        kept.append((b"x" * 1_500_000, open("/dev/null")))
"""


@pytest.fixture(params=["leaks", "rests"])
def program(request: pytest.FixtureRequest) -> Iterator[tuple[str, int]]:
    argv = [sys.executable, "-c", PROGRAM, request.param]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        with closing(process.stdout):
            process.stdout.readline()
            yield request.param, process.pid
            process.kill()


def test_a_process_that_leaks_memory_and_files_is_found_and_one_that_rests_is_not(
    program: tuple[str, int], tmp_path: Path
) -> None:
    kind, pid = program
    sampler = Sampler({"program": lambda: pid}, lambda _: [(10**6, 5, 3)], tmp_path, {"look": lambda: None}, 0.1)
    sampler.start()
    deadline = time.monotonic() + 60
    while len(sampler.samples) < 18 and time.monotonic() < deadline:
        time.sleep(0.1)
    sampler.stop()
    grown = {each.name for each in judge_all(sampler.rules, sampler.samples) if each.grew}
    assert grown == ({"program memory", "program open files"} if kind == "leaks" else set())
