"""Attempts as threads that stop where a failpoint, or a wait for a lock, hands control back; one runs at a time."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol
from unittest import mock

from offset_ledger.base import failpoints, retry
from offset_ledger.base.failpoints import Failpoint
from offset_ledger.errors import DatabaseUnavailable
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.outside.connections import Connection, environment_name
from offset_ledger.outside.kafka import client
from offset_ledger.postgres.ledger import database
from offset_ledger.steps.commit import step as commit_step
from offset_ledger.steps.report import dead_letters
from offset_ledger.steps.stage.slices import SliceTask
from offset_ledger.steps.validate import step as validate_step
from tests.machine import pool
from tests.machine.kafka import Cluster
from tests.model.state import File, Position

ANSWERED, TASKS, SETTLE, LOCK, RESOLVE, DELIVERS = "answered", "tasks", "settle", "lock", "resolve", "delivers"
"""Stops that are no failpoints: Kafka has answered a plan; before a batch that was claimed is read; before the
transactions of gate, commit and resolve; before a delivery of dead letters takes its transactional id.
"""
_SECONDS = 300


class Letters(Protocol):
    """The dead letter topic, a value or a real one."""

    def positions(self) -> dict[int, Position]:
        """Of which record each letter is, by its offset."""

    def publisher(self, extra: Mapping[str, str], topic: str, *, transactional_id: str, on_ack: Any) -> Any:
        """Take the place of the publisher of a delivery."""

    def read(self, connection: Connection, topic: str, wanted: OffsetRange, isolation: str) -> Iterator[Any]:
        """Take the place of ``read_records``."""


class Killed(BaseException):
    """The process dies here: what it had not committed is rolled back, and its sessions end."""


class Actor(threading.Thread):
    """A process at work on a batch or a plan, by the pipeline ``file``; a crash of Postgres may cut off its session."""

    def __init__(self, work: Callable[[], object], reached: Counter[str], file: File) -> None:
        super().__init__(daemon=True)
        self.file = file
        self.is_cut_off = False
        self._work, self._reached = work, reached
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self._stops: tuple[str, ...] = ()
        self._loses: str | None = None
        self._killed = False
        self.place: str | None = None
        self.ended = False
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        """Work, once it may."""
        self._go.acquire()
        try:
            self._work()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 - whoever let it go on looks at it
            self.error = error
        self.place, self.ended = None, True
        self._stopped.release()

    def run_to(self, *stops: str, loses: str | None = None) -> str | None:
        """Let it go on to one of these stops, or to its end: None. It ``loses`` the database at that failpoint."""
        if self.ended:
            return None
        self._stops, self._loses = stops, loses
        self._go.release()
        assert self._stopped.acquire(timeout=_SECONDS), "an attempt waits for another one"
        return self.place

    def kill(self) -> None:
        """Let it die where it is."""
        self._killed = True
        self.run_to()

    def reach(self, stop: str) -> None:
        """Called by its own thread."""
        self._reached[stop] += 1
        if stop == self._loses:
            self._loses = None
            raise DatabaseUnavailable("the connection is lost")
        if stop in self._stops and not self._killed:
            self.place = stop
            self._stopped.release()
            self._go.acquire()
        if self._killed:
            raise Killed


def reach(stop: str) -> None:
    """The thread stops here, if it is one of those and should."""
    actor = threading.current_thread()
    if isinstance(actor, Actor):
        actor.reach(stop)


@contextmanager
def stopping(
    cluster: Callable[[], Cluster] | None, letters: Letters, kafka: Connection, postgres: Connection
) -> Iterator[None]:
    """Steps of this process stop at failpoints, ask this cluster, or the real one, and write into this database."""
    environment = {
        **{environment_name(each.conn_id): each.to_json() for each in (kafka, postgres)},
        failpoints.VARIABLE: ";".join(f"{place}=stop" for place in Failpoint),
        retry.VARIABLE: "0" if cluster else "30",
    }
    with ExitStack() as patched:
        patched.enter_context(mock.patch.dict(os.environ, environment))
        patched.enter_context(mock.patch.object(database, "open_session", pool.open_session))
        patched.enter_context(mock.patch.object(failpoints, "_act", lambda place, _: reach(place)))
        if cluster:
            patched.enter_context(mock.patch.object(client, "Admin", side_effect=lambda *_: cluster()))
            patched.enter_context(mock.patch.object(client, "KafkaClient", _as_it_is))
        patched.enter_context(mock.patch.object(dead_letters, "Publisher", letters.publisher))
        patched.enter_context(mock.patch.object(dead_letters, "read_records", letters.read))
        for place, name, stop in (
            (SliceTask, "of", TASKS),
            (validate_step, "wait_for", SETTLE),
            (commit_step, "wait_for", LOCK),
            (commit_step, "wait_for_claims", RESOLVE),
        ):
            patched.enter_context(mock.patch.object(place, name, _stops_before(getattr(place, name), stop)))
        yield


def _as_it_is(admin: Cluster, _: float) -> Cluster:
    return admin


def _stops_before(called: Callable[..., Any], stop: str) -> Callable[..., Any]:
    def stops(*arguments: Any) -> Any:
        reach(stop)
        return called(*arguments)

    return stops
