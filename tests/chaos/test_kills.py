"""A process that dies at any failpoint, in whatever step, loses and doubles nothing. No JVM but the broker's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from offset_ledger.base.failpoints import NOT_ALWAYS, Failpoint
from offset_ledger_kit.sandbox.stack import Stack
from tests.chaos.bench import ELSEWHERE, Bench
from tests.chaos.lab import Lab
from tests.chaos.short import produced
from tests.fixtures.servers import Servers, execute


@pytest.fixture(scope="session")
def stack(shared_stack: Stack) -> Stack:
    """Only workers die here, no server."""
    return shared_stack


@pytest.fixture(scope="module")
def lab(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Workers beside the servers that everybody uses."""
    made = Lab(stack, tmp_path_factory.mktemp("kills") / "lab")
    yield made
    made.close()


@pytest.fixture
def bench(lab: Lab, servers: Servers, topic_name: Callable[[], str], tmp_path: Path) -> Iterator[Bench]:
    """A topic of three partitions whose batches the process of their task stages."""
    for setting in ELSEWHERE:
        execute(servers.postgres, f"ALTER DATABASE {servers.postgres.schema} {setting}")
    made = Bench(lab, servers.postgres, tmp_path, topic_name(), without_spark=True)
    made.create()
    yield made
    lab.disarm()


@pytest.mark.parametrize("place", [place for place in Failpoint if place not in NOT_ALWAYS])
def test_a_kill_at_every_failpoint_loses_and_doubles_nothing(bench: Bench, place: Failpoint) -> None:
    produced(bench)
    bench.lab.arm(f"{place}=kill")
    bench.attempt()
    assert bench.lab.reached() == {place}
    bench.drain()
    assert bench.check() == []
