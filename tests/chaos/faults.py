"""What goes wrong: each fault by its name, with what it does while an attempt runs and how it is healed."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random

import msgspec
import psycopg2
from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from offset_ledger.base.failpoints import NOT_ALWAYS, Failpoint
from offset_ledger.errors import DatabaseUnavailable
from offset_ledger.outside.producer.publisher import Publisher
from offset_ledger.outside.producer.settings import read_settings
from tests.chaos.bench import Bench
from tests.chaos.cluster import leaders, move_leaders
from tests.chaos.lab import Answer, Worker
from tests.chaos.oracle import SPAN, Kind


def _light(place: Failpoint) -> bool:
    """Whether a process that is quickly there again reaches the place, not the one with the Spark session."""
    return place not in (Failpoint.AFTER_CLAIM, Failpoint.AFTER_STAGE, *NOT_ALWAYS)


FAILPOINTS = tuple(f"{place}={how}" for place in Failpoint for how in ("kill", "fail", "stop") if _light(place))


@contextmanager
def _later(random: Random, act: Callable[[], object], within: float = 1.5) -> Iterator[None]:
    """Act at a moment of the attempt, and see that it has acted before the attempt counts as over."""
    moment = random.uniform(0.05, within)

    def run() -> None:
        time.sleep(moment)
        act()

    with ThreadPoolExecutor(1) as pool:
        acted = pool.submit(run)
        try:
            yield
        finally:
            acted.result(120)


@contextmanager
def failpoint(bench: Bench, random: Random, entry: str) -> Iterator[None]:
    """A process dies, stalls or fails at a named place; stalled ones go on after a while."""
    bench.lab.arm(entry)
    over = threading.Event()

    def wake() -> None:
        since = 0.0
        while not over.wait(0.2):
            since = since + 0.2 if any(worker.stopped() for worker in bench.lab.workers) else 0.0
            if since > asleep:
                bench.lab.resume()

    asleep = random.uniform(0.2, 2)
    waking = threading.Thread(target=wake)
    waking.start()
    try:
        yield
    finally:
        bench.lab.disarm()
        over.set()
        waking.join()
        bench.lab.resume()


def sessions_terminated(bench: Bench, random: Random) -> AbstractContextManager[None]:
    """pg_terminate_backend of every session."""
    return _later(random, bench.terminate_sessions)


def postgres_immediate_restart(bench: Bench, random: Random) -> AbstractContextManager[None]:
    """Postgres stops as in a crash, and starts again: UNLOGGED tables are empty."""
    return _later(random, lambda: bench.lab.stack.postgres.restart(immediate=True))


def postgres_paused(bench: Bench, random: Random) -> AbstractContextManager[None]:
    """SIGSTOP and SIGCONT of Postgres with all its sessions."""

    def act() -> None:
        bench.lab.stack.postgres.pause()
        time.sleep(random.uniform(0.2, 2))
        bench.lab.stack.postgres.resume()

    return _later(random, act)


def _node(bench: Bench, random: Random) -> int:
    return random.randint(1, bench.kafka.count)


def broker_killed(bench: Bench, random: Random) -> AbstractContextManager[None]:
    """SIGKILL of a broker, and a start on the same data."""
    node = _node(bench, random)

    def act() -> None:
        bench.broker(node).kill()
        bench.start_brokers()

    return _later(random, act)


def broker_restarted(bench: Bench, random: Random) -> AbstractContextManager[None]:
    """SIGTERM to a broker, and a start."""
    node = _node(bench, random)

    def act() -> None:
        bench.broker(node).stop()
        bench.start_brokers()

    return _later(random, act)


def broker_paused(bench: Bench, random: Random) -> AbstractContextManager[None]:
    """SIGSTOP and SIGCONT of a broker; of three, past its session every second time, so that its leaders move."""
    node, asleep = _node(bench, random), random.uniform(0.2, 3)
    asleep += random.choice((0, 6)) if bench.kafka.count > 1 else 0

    def act() -> None:
        bench.broker(node).pause()
        time.sleep(asleep)
        bench.broker(node).resume()

    return _later(random, act)


def broker_killed_while_producing(bench: Bench, random: Random) -> AbstractContextManager[None]:
    """A broker dies while records are under way to it: some of them may become unknown to their producer."""
    node = _node(bench, random)

    def act() -> None:
        bench.broker(node).kill()
        bench.start_brokers()

    @contextmanager
    def both() -> Iterator[None]:
        with _later(random, act, 0.3), ThreadPoolExecutor(1) as pool:
            drawn = [bench.record(random) for _ in range(60)]
            sending = pool.submit(bench.publish, drawn)
            yield
            sending.result(120)

    return both()


def answers_lost(bench: Bench, random: Random) -> AbstractContextManager[None]:
    """A producer dies between sending and the answer: the broker has its records, and nobody knows."""
    drawn = [bench.record(random) for _ in range(12)]
    placed = [(msgspec.structs.replace(sent, partition=0), produced) for sent, produced in drawn]
    return _later(random, lambda: bench.publish_unanswered(placed, leaders(bench.servers, bench.topic).get(0, 1)), 0.5)


def two_brokers_killed(bench: Bench, random: Random) -> AbstractContextManager[None]:
    """SIGKILL of two of three brokers at once, every third time with the controller among them, and a start."""
    nodes = random.choice(((1, 2), (2, 3), (2, 3)))

    def act() -> None:
        for node in nodes:
            bench.broker(node).kill()
        time.sleep(1)
        bench.start_brokers()

    return _later(random, act)


def leaders_moved(bench: Bench, random: Random) -> AbstractContextManager[None]:
    """Every partition gets another leader, once or twice."""
    often = random.randint(1, 2)

    def act() -> None:
        for _ in range(often):
            move_leaders(bench.servers, bench.topic)

    return _later(random, act, 0.8)


@contextmanager
def stopped_past_heartbeat(bench: Bench, random: Random) -> Iterator[None]:
    """A process stops, is taken for dead, and wakes when another attempt has come to its end."""
    place = random.choice([place for place in Failpoint if _light(place)])  # the other attempt needs the session
    bench.lab.arm(f"{place}=stop")
    over = threading.Event()

    def replace_it() -> None:
        while not over.wait(0.1):
            if any(worker.stopped() for worker in bench.lab.workers):
                bench.attempt(bench.lab.second)
                bench.lab.resume()
                return

    with ThreadPoolExecutor(1) as pool:
        replaced = pool.submit(replace_it)
        try:
            yield
        finally:
            bench.lab.disarm()
            over.set()
            replaced.result(300)
            bench.lab.resume()


def registry_killed(bench: Bench, random: Random) -> AbstractContextManager[None]:
    """SIGKILL of the schema registry, and a start on the same schemas after a while."""
    away = random.uniform(0, 3)

    def act() -> None:
        assert bench.lab.registry is not None
        bench.lab.registry.daemon.kill()
        time.sleep(away)
        bench.lab.start_registry()

    return _later(random, act, 0.4)


def registry_paused(bench: Bench, random: Random) -> AbstractContextManager[None]:
    """SIGSTOP and SIGCONT of the schema registry: it takes questions and does not answer."""
    asleep = random.uniform(0.5, 4)

    def act() -> None:
        assert bench.lab.registry is not None
        bench.lab.registry.daemon.pause()
        time.sleep(asleep)
        bench.lab.registry.daemon.resume()

    return _later(random, act, 0.4)


def network_cut(bench: Bench, random: Random) -> AbstractContextManager[None]:
    """Every connection between workers and Postgres is reset."""
    return _later(random, bench.lab.proxy.cut)


def network_held(bench: Bench, random: Random) -> AbstractContextManager[None]:
    """Nothing passes between workers and Postgres for a while, then everything does."""

    def act() -> None:
        bench.lab.proxy.stall()
        time.sleep(random.uniform(0.2, 2))
        bench.lab.proxy.release()

    return _later(random, act)


@contextmanager
def hanging_transaction(bench: Bench, random: Random) -> Iterator[None]:
    """A producer keeps a transaction open during the attempt; afterwards it is committed or aborted."""
    commit = random.random() < 0.5
    drawn = [bench.record(random, Kind.EVENT if commit else Kind.ABORTED) for _ in range(12)]
    kinds = {id(record): produced for record, produced in drawn}
    name = f"{bench.topic}-hang-{bench.serial}"
    # An attempt may take a minute, after which the broker would abort the transaction by itself.
    settings = read_settings(bench.extra, {"transaction.timeout.ms": "600000"})
    noted = bench.journal.on_ack(kinds)
    with Publisher(bench.extra, bench.topic, settings=settings, transactional_id=name, on_ack=noted) as publisher:
        for record, _ in drawn:
            publisher.send(record)
        publisher._producer.flush(20)
        yield
        publisher.finish(commit)


def partition_added(bench: Bench, random: Random) -> AbstractContextManager[None]:
    """The topic gets one more partition, with records, while the attempt runs."""

    def act() -> None:
        if bench.partitions < 8:
            with suppress(KafkaError):
                admin = KafkaAdminClient(bootstrap_servers=bench.extra["bootstrap.servers"])
                admin.create_partitions(dict.fromkeys(bench.topics, bench.partitions + 1))
                admin.close()
                bench.partitions += 1
                time.sleep(0.3)
                bench.publish([bench.record(random) for _ in range(20)])

    return _later(random, act, 0.8)


@contextmanager
def replay_overlaps(bench: Bench, random: Random) -> Iterator[None]:
    """Another process replays ranges below the cursors, and beyond, at the same time."""
    number = bench.any_topic(random)
    cursors = [(p, end) for p, end in sorted(bench.cursors(number).items()) if end > 1]
    ends = {p: 1 + max(o for q, o in bench.journal.acknowledged if q == SPAN * number + p) for p, _ in cursors}
    starts = [(p, random.randrange(end - 1)) for p, end in cursors]
    ranges = [[p, start, random.randint(start + 1, ends[p])] for p, start in starts]
    if not ranges:
        yield
        return

    def replay() -> None:
        planned = bench.ask(bench.lab.second, "replay", number=number, ranges=ranges)
        if planned.found.get("batch"):
            bench.run(planned.found["batch"], bench.lab.second)

    with ThreadPoolExecutor(1) as pool:
        replaying = pool.submit(replay)
        yield
        replaying.result(200)


def columns_changed(bench: Bench, random: Random) -> AbstractContextManager[None]:
    """The pipeline file gets a column, or a wider one, while the attempt runs."""

    def act() -> None:
        bench.added.change(random)
        assert bench.path.exists()  # written before a record with the column is

    return _later(random, act)


def remerged(bench: Bench, random: Random) -> AbstractContextManager[None]:
    """The pipeline file orders by Kafka's timestamps from a moment on, and another process remerges the table.

    What this leaves undone is done after the attempt, by :meth:`Bench.remerge`.
    """

    def act() -> None:
        bench.order = "remerged"
        bench.ask(bench.lab.second, "remerge")

    return _later(random, act)


@contextmanager
def two_attempts(bench: Bench, random: Random) -> Iterator[None]:
    """A second attempt at whatever is planned runs beside the first, as Airflow's scheduler sometimes lets it."""
    delay = random.uniform(0, 1)

    def again() -> list[Answer]:
        time.sleep(delay)
        return bench.attempt(bench.lab.second)

    with ThreadPoolExecutor(1) as pool:
        running: Future[list[Answer]] = pool.submit(again)
        yield
        running.result(300)


@contextmanager
def task_cleared(bench: Bench, random: Random) -> Iterator[None]:
    """The attempt's process gets SIGTERM, and another attempt starts at once."""

    def clear() -> None:
        worker: Worker = bench.lab.light
        if worker.process is not None and worker.process.poll() is None:
            worker.process.terminate()
        bench.attempt(bench.lab.second)

    with _later(random, clear):
        yield


@contextmanager
def disk_full(bench: Bench, random: Random) -> Iterator[None]:
    """Staging tables land on a disk that is full after a few records; later ones on the usual one."""
    place = Path(f"/tmp/offset-ledger-full-{bench.lab.stack.ports.postgres}-{random.randrange(10**9)}")
    name = f"full_{place.name.rsplit('-', 1)[1]}"
    database = bench.database.schema
    with ExitStack() as after:
        place.mkdir()
        after.callback(shutil.rmtree, place, ignore_errors=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k,mode=0777", "tmpfs", str(place)], check=True)
        after.callback(subprocess.run, ["umount", "-l", str(place)], check=True)
        shutil.chown(place, "pgserver")
        bench.superuser(f"CREATE TABLESPACE {name} LOCATION '{place}'")
        bench.superuser(f"GRANT CREATE ON TABLESPACE {name} TO PUBLIC")
        bench.superuser(f"ALTER DATABASE {database} SET default_tablespace = '{name}'")
        try:
            yield
        finally:
            _leave_tablespace(bench, name)


def _leave_tablespace(bench: Bench, name: str) -> None:
    """Nothing may stand in a tablespace that goes; a stopped server is waited for."""
    bench.superuser(f"ALTER DATABASE {bench.database.schema} RESET default_tablespace")
    for _ in range(20):
        with suppress(psycopg2.Error, DatabaseUnavailable):
            found = bench.query(
                "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_tablespace t ON t.oid = c.reltablespace"
                " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE t.spcname = %s AND c.relkind = 'r'"
                " AND n.nspname = 'offset_ledger_staging'",
                name,
            )
            for schema, table in found:
                bench.superuser(f'DROP TABLE IF EXISTS "{schema}"."{table}" CASCADE')
            for schema, table in bench.query("SELECT schemaname, tablename FROM pg_tables WHERE tablespace = %s", name):
                bench.superuser(f'ALTER TABLE "{schema}"."{table}" SET TABLESPACE pg_default')
            for schema, index in bench.query(
                "SELECT schemaname, indexname FROM pg_indexes WHERE tablespace = %s", name
            ):
                bench.superuser(f'ALTER INDEX "{schema}"."{index}" SET TABLESPACE pg_default')
            bench.superuser(f"DROP TABLESPACE {name}")
            bench.superuser("CHECKPOINT")  # a recovery from before would look for its folder
            return
        time.sleep(0.5)
    raise RuntimeError(f"tablespace {name} could not be dropped")


TIMED: dict[str, Callable[[Bench, Random], AbstractContextManager[None]]] = {
    each.__name__: each
    for each in (
        sessions_terminated,
        postgres_immediate_restart,
        postgres_paused,
        broker_killed,
        broker_restarted,
        broker_paused,
        broker_killed_while_producing,
        answers_lost,
        network_cut,
        network_held,
        hanging_transaction,
        partition_added,
        replay_overlaps,
        columns_changed,
        remerged,
        two_attempts,
        task_cleared,
        stopped_past_heartbeat,
        disk_full,
        two_brokers_killed,
        leaders_moved,
        registry_killed,
        registry_paused,
    )
}
OF_A_REGISTRY = frozenset({"registry_killed", "registry_paused"})
OF_THREE_BROKERS = frozenset({"two_brokers_killed", "leaders_moved"})
BROKERS = frozenset(
    {"broker_killed", "broker_restarted", "broker_paused", "broker_killed_while_producing", "answers_lost"}
)
# Two of one group would fight over the same server instead of the batch.
GROUPS = (
    BROKERS | OF_THREE_BROKERS | {"hanging_transaction"},
    {"postgres_immediate_restart", "postgres_paused", "disk_full"},
    BROKERS | OF_THREE_BROKERS | {"partition_added"},
    OF_A_REGISTRY,
)


def choose(random: Random, brokers: int = 1, registry: bool = False, by_clock: bool = False) -> list[str]:
    """One to three faults that can be at once, a failpoint among them every second time.

    With a registry, it is at fault every second time; a table of two topics ``by_clock`` is remerged every third time.
    """
    possible = sorted(TIMED.keys() - OF_A_REGISTRY - {"remerged"} - (OF_THREE_BROKERS if brokers == 1 else set()))
    if registry:
        possible.remove("columns_changed")  # the schemas of the registry have the columns of the beginning
    names = random.sample(possible, random.choice((0, 1, 1, 2)))
    if registry and random.random() < 0.5:
        names.append(random.choice(sorted(OF_A_REGISTRY)))
    if by_clock and random.random() < 1 / 3:
        names.append("remerged")
    chosen = [name for i, name in enumerate(names) if not any(name in g and g & set(names[:i]) for g in GROUPS)]
    # Failpoints are armed one set at a time.
    if not chosen or (random.random() < 0.5 and "stopped_past_heartbeat" not in chosen):
        chosen.append(random.choice((*FAILPOINTS, "after_claim=kill", "after_stage=kill")))
    return chosen


def injected(bench: Bench, random: Random, name: str) -> AbstractContextManager[None]:
    """The fault of that name, to be entered for the length of an attempt."""
    return failpoint(bench, random, name) if "=" in name else TIMED[name](bench, random)
