"""The network between a worker and a server goes away without a word, and comes back: no process dies."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from offset_ledger.base.failpoints import ONCE, VARIABLE
from offset_ledger.outside.connections import Connection, environment_name
from offset_ledger.postgres.ledger.database import connect, migrate
from offset_ledger_kit.sandbox.java import find_java
from offset_ledger_kit.sandbox.kafka import Kafka
from offset_ledger_kit.sandbox.layout import HOST, PortChoice, Ports
from offset_ledger_kit.sandbox.postgres import Postgres
from offset_ledger_kit.sandbox.process import Launch, silent
from tests.chaos import oracle
from tests.chaos.bench import Bench
from tests.chaos.lab import Answer, Lab, Worker
from tests.chaos.short import until
from tests.fixtures.namespaces import Link, Network, inside, network
from tests.fixtures.servers import NO_SYNC

pytestmark = [pytest.mark.full, pytest.mark.minutes(1)]

# A connection that says nothing is given up within seconds, by either side; two minutes by default.
SOON = {"keepalives_idle": "1", "keepalives_interval": "1", "keepalives_count": "2", "tcp_user_timeout": "3000"}
SERVER = "-c tcp_keepalives_idle=1 -c tcp_keepalives_interval=1 -c tcp_keepalives_count=2 -c tcp_user_timeout=3s"


@dataclass
class Parted:
    """Broker, Postgres and worker, each in its own network; the test looks at the servers from inside of theirs."""

    links: Network
    bench: Bench
    kafka: Kafka
    postgres: Postgres
    worker: Worker
    folder: Path

    def ask(self, do: str, **more: object) -> Answer:
        """Let the worker do a step, over the links."""
        return self.submit(do, **more).result(100)

    def submit(self, do: str, **more: object) -> Future[Answer]:
        """Ask, and come back for the answer later."""
        extra = {"connect_timeout": "2", "options": SERVER, **SOON}
        database = replace(self.bench.database, host=self.links.postgres.address, extra=extra)
        servers = f"{self.links.broker.address}:{self.kafka.ports.kafka[1]}"
        kafka = Connection("kafka_default", "kafka", extra={"bootstrap.servers": servers})
        asked = {"pipeline": str(self.bench.path), "database": database.to_json(), "kafka": kafka.to_json()}
        with inside(self.links.worker):
            return self.worker.submit(do, patience=3, **asked, **more)

    def produce(self, seed: int) -> None:
        """Records, from beside the broker."""
        with inside(self.links.broker.server):
            self.bench.produce(Random(seed), 60)

    def drain(self) -> None:
        """Batches until nothing is new."""
        while batch := self.ask("plan").found["batch"]:
            for step in ("stage", "validate", "commit"):
                answer = self.ask(step, batch=batch, without_spark=True)
                assert not answer.error, answer

    def arm(self, failpoint: str) -> None:
        """Let the worker act once at a place."""
        for mark in (self.folder / "once").iterdir():
            mark.unlink()
        (self.folder / "failpoints").write_text(failpoint)

    def disarm(self) -> None:
        """Let it act nowhere."""
        (self.folder / "failpoints").unlink()

    def resume(self) -> None:
        """SIGCONT to the worker."""
        for each in self.worker.stopped():
            each.resume()

    def query(self, text: str, *arguments: object) -> list[Any]:
        """Rows of a query, from beside Postgres."""
        with inside(self.links.postgres.server):
            return self.bench.query(text, *arguments)

    def check(self) -> list[str]:
        """What the oracle says, from beside Postgres."""
        with inside(self.links.postgres.server), pytest.MonkeyPatch.context() as patch:
            patch.setenv(environment_name("postgres_default"), self.bench.database.to_json())
            with connect(self.bench.database) as session:
                return oracle.check(session, self.bench.pipeline, self.bench.journal)


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Network, Kafka, Postgres, Path]]:
    """Both, each in its namespace."""
    with network() as links, ExitStack() as after:
        folder = Path(tempfile.mkdtemp(prefix="offset-ledger-"))
        after.callback(shutil.rmtree, folder)
        ports = Ports.choose(PortChoice.any_free())
        with inside(links.broker.server):
            kafka = Kafka(folder / "kafka", 1, ports, _listeners(ports, links.broker.address))
            after.callback(kafka.down)
            kafka.up(find_java(), Launch(silent))
        with inside(links.postgres.server):
            postgres = Postgres(folder / "postgres", ports.postgres, {"listen_addresses": "*", **NO_SYNC})
            after.callback(postgres.stop)
            postgres.up(Launch(silent))
            with connect(postgres.connection()) as session:
                migrate(session)
        yield links, kafka, postgres, folder


def _listeners(ports: Ports, address: str) -> dict[str, str]:
    clients = f"PLAINTEXT://{HOST}:{ports.kafka[0]},WORKER://{address}:{ports.kafka[1]}"
    return {
        "listeners": f"{clients},CONTROLLER://{HOST}:{ports.controller}",
        "advertised.listeners": clients,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,WORKER:PLAINTEXT",
    }


@pytest.fixture(scope="module")
def parted(servers: tuple[Network, Kafka, Postgres, Path]) -> Iterator[Parted]:
    """One topic and one database for all tests here: what one leaves, the next ones' oracle sees."""
    links, kafka, postgres, folder = servers
    (folder / "once").mkdir()
    environment = {**os.environ, VARIABLE: f"@{folder / 'failpoints'}", ONCE: str(folder / "once")}
    database = replace(postgres.connection(), conn_id="postgres_default")
    bench = Bench(cast(Lab, None), database, folder, "parted.events", cluster=kafka)
    worker = Worker(environment, folder / "worker.log")
    with inside(links.broker.server):
        bench.create()
    yield Parted(links, bench, kafka, postgres, worker, folder)
    worker.end()


@pytest.mark.parametrize(("link", "error"), [("broker", "BrokerUnavailable"), ("postgres", "DatabaseUnavailable")])
def test_a_step_that_cannot_reach_a_server_names_it_and_the_next_attempt_continues(
    parted: Parted, link: str, error: str
) -> None:
    parted.produce(1)
    gone: Link = getattr(parted.links, link)
    gone.down()
    assert parted.ask("plan").error == error
    gone.up()
    parted.drain()
    assert parted.check() == []


@pytest.mark.parametrize(("link", "error"), [("broker", "BrokerUnavailable"), ("postgres", "DatabaseUnavailable")])
def test_a_link_that_goes_down_while_a_batch_is_staged(parted: Parted, link: str, error: str) -> None:
    parted.produce(2)
    batch = parted.ask("plan").found["batch"]
    parted.arm("slice_copied=stop")
    staging = parted.submit("stage", batch=batch, without_spark=True)
    until(parted.worker.stopped)
    parted.disarm()
    gone: Link = getattr(parted.links, link)
    gone.down()
    parted.resume()
    assert staging.result(100).error == error
    gone.up()
    parted.drain()
    assert parted.check() == []


def test_a_link_that_goes_down_before_commit_is_sent_leaves_nothing_committed(parted: Parted) -> None:
    batch, committing = at_commit(parted, 3)
    parted.links.postgres.down()
    parted.resume()
    until(lambda: not parted.query("SELECT FROM pg_stat_activity WHERE application_name LIKE '%% commit'"))
    parted.links.postgres.up()
    assert committing.result(100).error == "DatabaseUnavailable"
    assert parted.query("SELECT state FROM offset_ledger.batch WHERE batch_id = %s", batch) == [["validated"]]
    parted.drain()
    assert parted.check() == []


def test_a_commit_whose_answer_is_lost_with_the_link_is_found_done(parted: Parted) -> None:
    batch, committing = at_commit(parted, 4)
    parted.postgres.pause()
    parted.resume()
    until(lambda: unread(parted.links.postgres.server, parted.postgres.port))
    parted.links.postgres.down()
    parted.postgres.resume()
    done = "SELECT state FROM offset_ledger.batch WHERE batch_id = %s"
    until(lambda: parted.query(done, batch) == [["committed"]])
    until(lambda: not established(parted.links.worker, parted.postgres.port))
    parted.links.postgres.up()
    assert committing.result(100).error is None
    assert f"the answer to COMMIT was lost; the ledger says batch {batch} is committed" in parted.worker.said()
    parted.drain()
    assert parted.check() == []


def at_commit(parted: Parted, seed: int) -> tuple[int, Future[Answer]]:
    """A batch whose transaction is open and whole, and the worker stopped before it says COMMIT."""
    parted.produce(seed)
    batch = parted.ask("plan").found["batch"]
    for step in ("stage", "validate"):
        assert not parted.ask(step, batch=batch, without_spark=True).error
    parted.arm("after_merge=stop")
    committing = parted.submit("commit", batch=batch)
    until(parted.worker.stopped)
    parted.disarm()
    return batch, committing


def unread(namespace: str, port: int) -> bool:
    """Whether a connection to the port there has bytes that its server has not read."""
    return any(int(queues.split(":")[1], 16) for state, queues in _connections(namespace, 1, port) if state == "01")


def established(namespace: str, port: int) -> bool:
    """Whether a connection from there to the port stands."""
    return any(state == "01" for state, _ in _connections(namespace, 2, port))


def _connections(namespace: str, end: int, port: int) -> list[tuple[str, str]]:
    """State and queues of the namespace's TCP connections whose local (1) or remote (2) port it is."""
    with inside(namespace):
        lines = [line.split() for line in Path("/proc/thread-self/net/tcp").read_text().splitlines()[1:]]
    return [(line[3], line[4]) for line in lines if int(line[end].split(":")[1], 16) == port]
