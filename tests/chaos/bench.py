"""One pipeline under test: its topic, its journal, the workers that run its steps, and what breaks between them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import psutil
import psycopg2

from offset_ledger.connections import Connection, postgres_arguments
from offset_ledger.failpoints import ONCE, VARIABLE
from offset_ledger.labs.proxy import Proxy
from offset_ledger.ledger.database import connect, rows
from offset_ledger.local.process import Daemon
from offset_ledger.local.stack import Stack
from offset_ledger.pipeline.model import Pipeline
from offset_ledger.pipeline.parse import parse_pipeline
from offset_ledger.publishing.producer import Publisher, PublishFailed, TransactionOutcomeUnknown
from offset_ledger.publishing.record import Record
from offset_ledger.publishing.topics import create_topic
from tests.chaos import oracle
from tests.chaos.oracle import Journal, Kind, Produced

ROOT = Path(__file__).resolve().parents[2]
NOON = 1_767_268_800_000  # 2026-01-01T12:00:00Z
STEPS = ("plan", "stage", "validate", "commit", "report")

PIPELINE = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}, start: earliest, transactional: {transactional}}}
record:
  event_id: key
  publish_at: $.at
  tombstone: delete
  columns: {{state: text}}
target: {{connection: postgres_default, table: public.orders}}
quality: {{max_quarantined_share: 1.0}}
limits: {{records_per_batch: {batch}, records_per_slice: {slice}}}
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a worker said, or that it died (``error`` is then ``Died``) or kept silent (``Silent``)."""

    found: dict[str, Any]

    @property
    def error(self) -> str | None:
        """The class of the error, or None."""
        return self.found.get("error")

    def __str__(self) -> str:
        return f"{self.error}: {self.found.get('message', '')}" if self.error else str(self.found)


class Worker:
    """A worker process; started when first asked, and again when asked after its death."""

    def __init__(self, environment: dict[str, str], log: Path) -> None:
        self._environment = environment
        self._log = log
        self._ids = count()
        self._waiting: dict[int, Future[Answer]] = {}
        self._lock = threading.Lock()
        self.process: subprocess.Popen[str] | None = None

    def submit(self, do: str, **more: Any) -> Future[Answer]:
        """Ask, and come back for the answer later."""
        with self._lock:
            if self.process is None or self.process.poll() is not None:
                self._start()
            assert self.process is not None
            assert self.process.stdin is not None
            number, answer = next(self._ids), Future[Answer]()
            self._waiting[number] = answer
            try:
                self.process.stdin.write(json.dumps({"id": number, "do": do, **more}) + "\n")
                self.process.stdin.flush()
            except (BrokenPipeError, OSError):
                self._waiting.pop(number, None)
                if not answer.done():
                    answer.set_result(Answer({"error": "Died", "message": "before it was asked"}))
            return answer

    def end(self) -> None:
        """SIGKILL it and what it started."""
        process = self.process
        if process is None or process.poll() is not None:
            return
        with suppress(psutil.NoSuchProcess):
            family = [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]
            for member in family:
                with suppress(psutil.NoSuchProcess):
                    member.kill()
        process.wait(10)

    def stopped(self) -> list[psutil.Process]:
        """Members of its family that are in SIGSTOP."""
        found = []
        if self.process is not None and self.process.poll() is None:
            with suppress(psutil.NoSuchProcess):
                leader = psutil.Process(self.process.pid)
                for member in [leader, *leader.children(recursive=True)]:
                    with suppress(psutil.NoSuchProcess):
                        if member.status() == psutil.STATUS_STOPPED:
                            found.append(member)
        return found

    def _start(self) -> None:
        with self._log.open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.worker"],
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self._waiting = {}  # the dead process's listener answers what was asked of it
        threading.Thread(target=self._listen, args=(self.process, self._waiting), daemon=True).start()

    def _listen(self, process: subprocess.Popen[str], waiting: dict[int, Future[Answer]]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            found = json.loads(line)
            waiting.pop(found["id"]).set_result(Answer(found))
        code = process.wait()
        for number in list(waiting):
            answer = waiting.pop(number)
            if not answer.done():
                answer.set_result(Answer({"error": "Died", "message": f"exit code {code}"}))


class Lab:
    """Servers and workers that several benches use one after another.

    ``light`` and ``second`` never stage, ``heavy`` has the Spark session. Workers reach Postgres through the proxy.
    """

    def __init__(self, stack: Stack, folder: Path) -> None:
        self.stack = stack
        self.folder = folder
        (folder / "once").mkdir(parents=True)
        self.proxy = Proxy(stack.ports.postgres)
        environment = {
            **os.environ,
            **stack.environment(),
            "OFFSET_LEDGER_REPORTS": str(folder / "reports"),
            "OFFSET_LEDGER_PATIENCE": "20",
            VARIABLE: f"@{folder / 'failpoints'}",
            ONCE: str(folder / "once"),
        }
        self.heavy, self.light, self.second = (
            Worker(environment, folder / f"{name}.log") for name in ("heavy", "light", "second")
        )

    @property
    def workers(self) -> tuple[Worker, ...]:
        """All of them."""
        return self.heavy, self.light, self.second

    def arm(self, *failpoints: str) -> None:
        """Let each of these ``place=action`` happen once, in whatever process comes there first."""
        for mark in (self.folder / "once").iterdir():
            mark.unlink()
        draft = self.folder / "failpoints.new"
        draft.write_text(";".join(failpoints))
        draft.replace(self.folder / "failpoints")

    def disarm(self) -> None:
        """No failpoint acts any more."""
        (self.folder / "failpoints").unlink(missing_ok=True)

    def reached(self) -> set[str]:
        """The armed places that were reached."""
        return {mark.name for mark in (self.folder / "once").iterdir()}

    def resume(self) -> int:
        """SIGCONT to everything of ours that is stopped; how many that were."""
        stopped = [each for worker in self.workers for each in worker.stopped()]
        for each in stopped:
            with suppress(psutil.NoSuchProcess):
                each.resume()
        return len(stopped)

    @property
    def broker(self) -> Daemon:
        """The first broker's process."""
        return self.stack.kafka.broker(1).daemon

    def start_broker(self) -> None:
        """Start the first broker again, if it does not run, and return when it answers."""
        if self.broker.pid() is None:
            self.stack.kafka.broker(1).start(self.stack.java)
        self.stack.kafka.wait()

    def close(self) -> None:
        """End the workers and the proxy."""
        for worker in self.workers:
            worker.end()
        self.proxy.close()


@dataclass
class Bench:
    """One topic and one database, with the journal of what was produced."""

    lab: Lab
    database: Connection
    folder: Path
    topic: str
    settings: dict[str, Any] = field(
        default_factory=lambda: {"transactional": "true", "batch": 1_000_000, "slice": 100_000}
    )
    partitions: int = 3
    journal: Journal = field(default_factory=Journal)
    serial: int = 0

    @property
    def extra(self) -> dict[str, str]:
        """The Kafka connection's settings."""
        return {"bootstrap.servers": self.lab.stack.kafka.bootstrap}

    @property
    def path(self) -> Path:
        """The pipeline file."""
        path = self.folder / "orders.yaml"
        text = PIPELINE.format(topic=self.topic, **self.settings)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
        return path

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline as the steps take it."""
        return parse_pipeline(self.path)

    # -- producing ---------------------------------------------------------------------------------------------

    def create(self, configs: dict[str, str] | None = None) -> None:
        """Make the topic."""
        create_topic(self.extra, self.topic, self.partitions, 1, {"retention.ms": "-1", **(configs or {})})

    def record(self, random: Random, kind: Kind = Kind.EVENT, ids: int = 90) -> tuple[Record, Produced]:
        """One record: late, early or at the same moment as another one of its event, on any partition."""
        self.serial += 1
        event_id, at, mark = f"e{random.randrange(ids)}", NOON + 1000 * random.randrange(50), f"m{self.serial}"
        sent_at = at
        if kind is Kind.ABORTED:
            at += 365 * 86_400_000  # it would win over everything
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at / 1000))
        value: bytes | None = json.dumps({"at": moment, "state": mark}).encode()
        if kind is Kind.TOMBSTONE:
            value = mark = None
        if kind is Kind.MALFORMED:
            spoilt = (b"{" + mark.encode(), b"\xff\x00" + mark.encode(), f'{{"at":"{moment}","state":1}}'.encode())
            value = random.choice(spoilt)
        sent = Record(event_id.encode(), value, (), sent_at, random.randrange(self.partitions))
        return sent, Produced(event_id, at, mark, kind, value)

    def publish(
        self, drawn: list[tuple[Record, Produced]], transaction: str | None = None, commit: bool = True
    ) -> None:
        """Send records and enter them in the journal; what nobody answered for becomes unknown."""
        kinds = {id(record): produced for record, produced in drawn}
        try:
            with Publisher(
                self.extra, self.topic, transactional_id=transaction, on_ack=self.journal.on_ack(kinds)
            ) as publisher:
                for record, _ in drawn:
                    publisher.send(record)
                publisher.finish(commit)
        except PublishFailed as failed:
            for record in failed.unconfirmed:
                produced = kinds[id(record)]
                self.journal.unknown[produced.mark] = produced
        except TransactionOutcomeUnknown:
            for produced in kinds.values():
                self.journal.unknown[produced.mark] = produced

    def produce(self, random: Random, records: int) -> None:
        """Plain, committed and aborted records of every kind, the last of them sometimes a control record."""
        kinds = [Kind.EVENT] * 20 + [Kind.MALFORMED, Kind.TOMBSTONE]
        parts = [(records // 2, None, True), (records // 3, "t", True), (records // 6, "a", False)]
        random.shuffle(parts)
        for number, name, commit in parts:
            drawn = [self.record(random, random.choice(kinds) if commit else Kind.ABORTED) for _ in range(number)]
            self.publish(drawn, f"{self.topic}-{name}-{self.serial}" if name else None, commit)

    # -- running -----------------------------------------------------------------------------------------------

    def submit(self, worker: Worker, do: str, **more: Any) -> Future[Answer]:
        """Ask a worker and come back for the answer later."""
        through = replace(self.database, port=self.lab.proxy.port)
        return worker.submit(do, pipeline=str(self.path), database=through.to_json(), **more)

    def ask(self, worker: Worker, do: str, seconds: float = 90, **more: Any) -> Answer:
        """Ask and wait; ``Silent`` if no answer came in time."""
        with suppress(FutureTimeout, TimeoutError):
            return self.submit(worker, do, **more).result(seconds)
        return Answer({"error": "Silent", "message": f"{do} did not answer within {seconds:.0f} s"})

    def attempt(self, light: Worker | None = None, seconds: float = 60) -> list[Answer]:
        """One attempt at one head batch, plan to report; it ends at the first error. The answers, in order."""
        light = light or self.lab.light
        planned = self.ask(light, "plan", seconds)
        batch = planned.found.get("batch")
        return [planned] if planned.error or batch is None else [planned, *self.run(batch, light, seconds)]

    def run(self, batch: int, light: Worker | None = None, seconds: float = 60) -> list[Answer]:
        """The steps after the plan; they end at the first error."""
        answers: list[Answer] = []
        for step in STEPS[1:]:
            worker = self.lab.heavy if step == "stage" else light or self.lab.light
            answers.append(self.ask(worker, step, seconds, batch=batch))
            if answers[-1].error:
                break
        return answers

    def drain(self, seconds: float = 150) -> list[Answer]:
        """Attempts until every acknowledged record is committed; the errors on the way.

        Raises:
            TimeoutError: that was not so in time.
        """
        errors, deadline = [], time.monotonic() + seconds
        while True:
            answers = self.attempt()
            errors += [answer for answer in answers if answer.error]
            if answers[-1].found.get("batch", 0) is None and not self.waiting():
                return errors
            if time.monotonic() > deadline:
                raise TimeoutError(f"not drained after {seconds:.0f} s; waiting: {self.waiting()}; {errors[-3:]}")

    def waiting(self) -> dict[int, int]:
        """Partition -> records acknowledged, not aborted, and not below its cursor."""
        found = self.query("SELECT partition, next_offset FROM offset_ledger.cursor")
        cursors = {row[0]: row[1] for row in found}
        left: dict[int, int] = {}
        for (partition, offset), record in self.journal.acknowledged.items():
            if record.kind is not Kind.ABORTED and offset >= cursors.get(partition, 0):
                left[partition] = left.get(partition, 0) + 1
        return left

    # -- looking -----------------------------------------------------------------------------------------------

    def query(self, text: str, *arguments: Any) -> list[Any]:
        """Rows of a query, over a session of its own that goes past the proxy."""
        with connect(self.database, "chaos oracle") as session:
            return rows(session, text, arguments)

    def check(self, drained: bool = True) -> list[str]:
        """What the oracle says."""
        with connect(self.database, "chaos oracle") as session:
            return oracle.check(session, self.pipeline, self.journal, drained)

    def fingerprint(self) -> set[tuple[str, str]]:
        """Every row with the transaction that wrote it."""
        with connect(self.database, "chaos oracle") as session:
            return oracle.fingerprint(session, self.pipeline)

    def states(self) -> list[tuple[int, str, int]]:
        """(batch, state, epoch) of every batch."""
        return [tuple(row) for row in self.query("SELECT batch_id, state, epoch FROM offset_ledger.batch ORDER BY 1")]

    # -- breaking ----------------------------------------------------------------------------------------------

    def terminate_sessions(self) -> int:
        """End every session in the database but this one."""
        query = (
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return int(self.query(query)[0][0])

    def superuser(self, statement: str) -> None:
        """Run one statement as the server's superuser."""
        session = psycopg2.connect(**{**postgres_arguments(self.database), "user": "postgres"})
        try:
            session.autocommit = True
            with session.cursor() as cursor:
                cursor.execute(statement)
        finally:
            session.close()
