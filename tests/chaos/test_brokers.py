"""Three brokers that die, fall behind and elect; and a network that is cut between a client and its server."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
from kafka import KafkaProducer
from kafka.errors import KafkaError, NotEnoughReplicasError

from offset_ledger.base.failpoints import ONCE, VARIABLE
from offset_ledger.errors import LogTruncated
from offset_ledger.model.batch import Origin
from offset_ledger.model.questions import QuestionAnswer
from offset_ledger.operations.repair.verify import verify
from offset_ledger.outside.connections import Connection, environment_name
from offset_ledger.pipeline_file.source import OnExpired
from offset_ledger.postgres.ledger.database import connect, migrate
from offset_ledger.steps.decide.answers import answer_question, loss_question, record_question, skip_lost
from offset_ledger_kit.sandbox.java import find_java
from offset_ledger_kit.sandbox.kafka import Kafka
from offset_ledger_kit.sandbox.layout import HOST, PortChoice, Ports
from offset_ledger_kit.sandbox.postgres import Postgres
from offset_ledger_kit.sandbox.process import Launch, silent
from offset_ledger_kit.sandbox.stack import Stack
from tests.chaos import oracle
from tests.chaos.bench import PLAIN, Bench
from tests.chaos.cluster import create_placed, elect_unclean, in_sync, leaders, move_leaders
from tests.chaos.lab import Answer, Lab, Worker
from tests.chaos.oracle import Journal
from tests.chaos.short import TRANSIENT, errors, produced, to_step, until
from tests.fixtures.namespaces import Link, Network, inside, network
from tests.fixtures.servers import NO_SYNC, Servers, new_database

pytestmark = [pytest.mark.full, pytest.mark.minutes(3)]

ANN = Origin("ann")
SPREAD = {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2)}  # node 1 is the controller too


@pytest.fixture(scope="module")
def cluster(stack: Stack) -> Iterator[Kafka]:
    """Three brokers; factor 3, two in-sync replicas wanted."""
    home = Path(tempfile.mkdtemp(prefix="offset-ledger-brokers-"))
    made = Kafka(home / "kafka", 3, Ports.choose(PortChoice.any_free()))
    made.up(stack.java, Launch(silent))
    yield made
    made.kill()
    shutil.rmtree(home)


@pytest.fixture
def bench(lab: Lab, cluster: Kafka, servers: Servers, topic_name: Callable[[], str], tmp_path: Path) -> Iterator[Bench]:
    """A database of the test's own and a topic whose three partitions are led by a broker each."""
    made = Bench(lab, servers.postgres, tmp_path, topic_name(), cluster=cluster)
    made.start_brokers()  # those that the test before has killed
    placed(made, SPREAD)
    yield made
    lab.disarm()
    lab.resume()


def placed(bench: Bench, places: dict[int, Sequence[int]], **configs: str) -> None:
    bench.partitions = len(places)
    create_placed(bench.servers, bench.topic, places, {"retention.ms": "-1", **configs})
    until(lambda: leaders(bench.servers, bench.topic) == {p: nodes[0] for p, nodes in places.items()})


def some(bench: Bench, records: int, seed: int) -> None:
    random = Random(seed)
    bench.publish([bench.record(random) for _ in range(records)])


def committed(bench: Bench) -> None:
    """What was acknowledged gets committed, whatever passes on the way, and the oracle agrees."""
    assert {answer.error for answer in bench.drain()} <= TRANSIENT
    assert bench.check() == []


def test_one_of_three_brokers_dies_while_a_batch_is_staged(bench: Bench) -> None:
    produced(bench)
    batch = to_step(bench, "plan")
    bench.lab.arm("slice_copied=sleep:1")
    staging = bench.submit(bench.lab.heavy, "stage", batch=batch)
    until(bench.lab.reached)
    bench.broker(2).kill()
    assert staging.result(120).error in (None, *TRANSIENT)
    committed(bench)
    assert [state for _, state, _ in bench.states()] == ["committed"]


def test_a_leader_stopped_past_its_session_resumes_with_an_old_log(bench: Bench) -> None:
    produced(bench)
    bench.drain()
    bench.broker(3).pause()
    for node in (1, 2):
        until(lambda node=node: 3 not in leaders(bench.alive(node), bench.topic).values())
    random = Random(2)
    bench.send_plainly([bench.record(random) for _ in range(30)], bench.alive(1, 2))
    until(lambda: bench.ask(bench.lab.light, "plan").found.get("batch"))
    bench.broker(3).resume()  # for a moment it still takes itself for the leader
    committed(bench)


def test_with_two_of_three_brokers_dead_publishing_is_refused_and_nothing_is_lost(bench: Bench) -> None:
    produced(bench)
    for node in (2, 3):
        bench.broker(node).kill()
    until(lambda: in_sync(bench.alive(1), bench.topic) == {1})
    producer = KafkaProducer(bootstrap_servers=bench.alive(1).split(","), **PLAIN)
    with pytest.raises(NotEnoughReplicasError):  # not in the journal: the oracle would call its row one nobody produced
        producer.send(bench.topic, b'{"at": "2027-01-01T00:00:00Z", "state": "refused"}', b"e1", partition=0).get(30)
    producer.close(timeout=0)
    # A leader of less than min.insync.replicas tells its end only if it knew it before.
    planned = bench.ask(bench.lab.light, "plan", patience=2)
    assert planned.error in (None, "BrokerUnavailable"), planned
    bench.start_brokers()
    some(bench, 30, 2)
    committed(bench)


def test_without_controller_and_leader_staging_fails_as_transient_and_says_why(bench: Bench) -> None:
    produced(bench)
    batch = to_step(bench, "plan")
    for node in (1, 2):
        bench.broker(node).kill()
    sent, unanswered = bench.record(Random(9))
    bench.journal.unknown[unanswered.mark] = unanswered  # its leader has it, and nobody else ever answers
    bounds = {"request_timeout_ms": 2000, "delivery_timeout_ms": 2500}
    producer = KafkaProducer(bootstrap_servers=bench.alive(3).split(","), **PLAIN, **bounds)
    with pytest.raises(KafkaError):
        producer.send(bench.topic, sent.value, sent.key, [], 2, sent.timestamp_ms).get(30)
    producer.close(timeout=0)
    staged = bench.ask(bench.lab.heavy, "stage", batch=batch, patience=2)
    assert (staged.error, staged.found["transient"]) == ("BrokerUnavailable", True)
    assert "check that the brokers run" in str(staged)
    bench.start_brokers()
    committed(bench)


def test_leaders_that_move_between_plan_and_read_are_followed(bench: Bench) -> None:
    produced(bench)
    to_step(bench, "plan")
    move_leaders(bench.servers, bench.topic)
    some(bench, 30, 2)
    committed(bench)
    move_leaders(bench.servers, bench.topic)  # the cursors' epochs are old ones now, of a log that was not cut
    some(bench, 30, 3)
    committed(bench)
    moved = bench.query("SELECT DISTINCT leader_epoch FROM offset_ledger.batch_range ORDER BY 1")
    assert len(moved) > 1


def test_an_unclean_election_is_reported_before_anything_is_committed(
    bench: Bench, servers: Servers, topic_name: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with new_database(servers.stack) as other, new_database(servers.stack) as third:
        ingested = replace(bench, topic=topic_name(), journal=Journal())
        planned, begun = (
            replace(ingested, topic=topic_name(), journal=Journal(), database=database, folder=tmp_path / name)
            for name, database in (("planned", other), ("begun", third))
        )
        begun.settings = {**begun.settings, "start": "latest"}
        for each in (planned, begun):
            each.folder.mkdir()
        for each in (ingested, planned, begun):
            placed(each, {0: (2, 3)}, **{"min.insync.replicas": "1"})
            some(each, 20, 1)
        committed(ingested)
        bench.broker(3).kill()
        until(lambda: all(in_sync(bench.alive(1, 2), each.topic) == {2} for each in (ingested, planned, begun)))
        for each in (ingested, planned, begun):
            some(each, 20, 2)
        committed(ingested)
        assert ingested.query("SELECT next_offset FROM offset_ledger.cursor") == [[40]]
        batch = to_step(planned, "plan")
        assert [answer.found["batch"] for answer in begun.attempt()] == [None]  # it begins at 40
        rows = ingested.fingerprint()
        lose(bench, [ingested.topic, planned.topic, begun.topic])
        assert errors(ingested.attempt()) == ["LogTruncated"]
        others = {}
        for each in (ingested, planned, begun):
            each.journal, kept = Journal(), each.journal
            some(each, 40, 3)  # other records take the lost ones' offsets, and more
            each.journal, others[each.topic] = kept, each.journal
        assert errors(ingested.attempt()) == errors(begun.attempt()) == ["LogTruncated"]
        lost = planned.ask(planned.lab.heavy, "stage", batch=batch)
        assert (lost.error, lost.found["transient"]) == ("LogTruncated", False)
        assert "offsets [20, 40) were planned under leader epoch" in str(lost)
        assert ingested.fingerprint() == rows
        assert ingested.check() == []
        assert planned.query("SELECT count(*) FROM public.orders")[0][0] == 0
        accepted(ingested, monkeypatch, back=[[0, 20, 40]])
        accepted(planned, monkeypatch, abandons=batch)
        assert planned.states()[0][1] == "abandoned"
        assert table(ingested) == newest([ingested.journal, others[ingested.topic]])  # the lost ones stand, too
        assert table(planned) == newest([first(planned.journal, 20), others[planned.topic]])
        connected(begun, monkeypatch)
        to_skip = replace(begun.pipeline.source, on_expired=OnExpired.EARLIEST_AFTER_APPROVAL)
        with pytest.raises(LogTruncated, match=r"offsets \[20, 40\) were passed"):
            skip_lost(replace(begun.pipeline, source=to_skip), ANN, "nothing is lost")
        accepted(begun, monkeypatch, back=[[0, 0, 40]])
        assert table(begun) == newest([first(begun.journal, 20), others[begun.topic]])


def accepted(bench: Bench, monkeypatch: pytest.MonkeyPatch, **numbers: object) -> None:
    """A person is asked with these numbers and says yes; the next attempt takes what the log holds now."""
    connected(bench, monkeypatch)
    asked = loss_question(bench.pipeline)
    assert asked is not None
    assert {name: asked.details.get(name) for name in ("back", "abandons")} == {
        "back": None,
        "abandons": None,
        **numbers,
    }
    answer_question(
        bench.pipeline, record_question(bench.pipeline, asked), QuestionAnswer.APPROVE, ANN, "the broker's disk died"
    )
    assert loss_question(bench.pipeline) is None
    assert [str(a) for a in bench.attempt() if a.error] == []
    assert bench.query("SELECT kind, answer, who FROM offset_ledger.decision") == [["truncated_log", "approve", "ann"]]
    assert verify(bench.pipeline)[0] == []


def connected(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = Connection("kafka_default", "kafka", extra={"bootstrap.servers": bench.alive(1, 3)})
    for connection in (kafka, replace(bench.database, conn_id="postgres_default")):
        monkeypatch.setenv(environment_name(connection.conn_id), connection.to_json())


def table(bench: Bench) -> dict[str, str]:
    return dict(bench.query("SELECT event_id, state FROM public.orders"))


def first(journal: Journal, records: int) -> Journal:
    return Journal({place: record for place, record in journal.acknowledged.items() if place[1] < records})


def newest(journals: Sequence[Journal]) -> dict[str, str | None]:
    """Event id -> the mark of its newest record, by the merge's own order."""
    records = [(r.publish_at, *place, r) for journal in journals for place, r in journal.acknowledged.items()]
    return {r.event_id: r.mark for *_, r in sorted(records, key=lambda each: each[:3])}


def lose(bench: Bench, topics: Sequence[str]) -> None:
    """The last replica in sync dies, and the one without the last records is made leader."""
    bench.broker(2).kill()
    bench.start_broker(3)
    for topic in topics:

        def elected(topic: str = topic) -> bool:
            elect_unclean(bench.alive(1, 3), topic)
            return leaders(bench.alive(1, 3), topic) == {0: 3}

        until(elected, 40)


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
def machines() -> Iterator[tuple[Network, Kafka, Postgres, Path]]:
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
def parted(machines: tuple[Network, Kafka, Postgres, Path]) -> Iterator[Parted]:
    """One topic and one database for all tests here: what one leaves, the next ones' oracle sees."""
    links, kafka, postgres, folder = machines
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
