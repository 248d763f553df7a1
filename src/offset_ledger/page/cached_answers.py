"""Answers of servers, each used for seconds, asked for in threads, so that nobody waits for a server that is away."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class _Request(Generic[Answer]):
    answer: Future[Answer]
    sent_at: float


class CachedAnswers(Generic[Key, Answer]):
    """Asks in ``threads`` of its own; an answer is used for all requests of ``max_age`` seconds."""

    def __init__(self, name: str, max_age: float, timeout: float, threads: int) -> None:
        self._max_age = max_age
        self._timeout = timeout
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._requests: dict[Key, _Request[Answer]] = {}
        self._lock = Lock()

    def get(self, asks: Mapping[Key, Callable[[], Answer]]) -> dict[Key, Answer]:
        """The answers that there are after ``timeout`` seconds at the latest; the functions must not raise."""
        requests = {key: self._request(key, ask) for key, ask in asks.items()}
        left = max((self._timeout - (time.monotonic() - each.sent_at) for each in requests.values()), default=0.0)
        wait_for([each.answer for each in requests.values()], timeout=max(0.0, left))
        return {key: each.answer.result() for key, each in requests.items() if each.answer.done()}

    def _request(self, key: Key, ask: Callable[[], Answer]) -> _Request[Answer]:
        with self._lock:
            last = self._requests.get(key)
            if last is None or (last.answer.done() and time.monotonic() - last.sent_at > self._max_age):
                last = self._requests[key] = _Request(self._pool.submit(ask), time.monotonic())
            return last
