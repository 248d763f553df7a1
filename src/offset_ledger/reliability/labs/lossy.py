"""A proxy that understands Kafka's frames and loses one of them."""

from __future__ import annotations

import socket
import threading
from enum import StrEnum

from offset_ledger.reliability.labs.proxy import Proxy

_PRODUCE = 0  # api key


class Loss(StrEnum):
    """What gets lost on the way: a produce request, or the acknowledgement of one that was written."""

    REQUEST = "request"
    ACKNOWLEDGEMENT = "acknowledgement"


class LossyProxy(Proxy):
    """Forwards whole Kafka frames; ``lose`` makes it lose one, ``lost`` says whether it has."""

    def __init__(self, port: int) -> None:
        self.lost = False
        self._wanted: tuple[Loss, int] | None = None
        self._requests = 0
        self._unanswered: tuple[socket.socket, bytes] | None = None
        self._lock = threading.Lock()
        super().__init__(port)

    def lose(self, what: Loss, number: int) -> None:
        """Lose the produce request of that number from now on, counted from 1, or its acknowledgement."""
        with self._lock:
            self._wanted, self._requests, self._unanswered, self.lost = (what, number), 0, None, False

    def read(self, source: socket.socket) -> bytes:
        """One frame with its length before it."""
        head = _exactly(source, 4)
        body = _exactly(source, int.from_bytes(head, "big")) if head else b""
        return head + body if body else b""

    def passes(self, data: bytes, client: socket.socket, to_server: bool) -> bool:
        """False once, for the frame that is to be lost."""
        with self._lock:
            return self._request(data, client) if to_server else self._answer(data, client)

    def _request(self, data: bytes, client: socket.socket) -> bool:
        if self._wanted is None or int.from_bytes(data[4:6], "big") != _PRODUCE:
            return True
        self._requests += 1
        what, number = self._wanted
        if self._requests != number:
            return True
        self._wanted = None
        if what is Loss.ACKNOWLEDGEMENT:
            self._unanswered = (client, data[8:12])  # its correlation id
            return True
        self.lost = True
        return False

    def _answer(self, data: bytes, client: socket.socket) -> bool:
        if self._unanswered != (client, data[4:8]):
            return True
        self._unanswered, self.lost = None, True
        self.cut()  # the client learns that no answer will come, instead of waiting for its timeout
        return False


def _exactly(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = source.recv(size - len(data))
        if not more:
            return b""
        data += more
    return data
