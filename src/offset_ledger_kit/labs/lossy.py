"""A TCP proxy that cuts or stalls the network, and one that understands Kafka's frames and loses one of them."""

import socket
import struct
import threading
from contextlib import suppress
from enum import StrEnum


class Proxy:
    """A proxy that forwards every connection to ``port``; it listens on ``self.port`` until closed."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._flowing = threading.Event()
        self._flowing.set()
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Reset every connection that is open now."""
        for each in list(self._open):
            with suppress(OSError):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                each.shutdown(socket.SHUT_RDWR)

    def stall(self) -> None:
        """Forward nothing, and keep the connections open."""
        self._flowing.clear()

    def release(self) -> None:
        """Forward again, including what was stalled."""
        self._flowing.set()

    def close(self) -> None:
        """Stop listening and reset everything."""
        self._listener.close()
        self.release()
        self.cut()

    def read(self, source: socket.socket) -> bytes:
        """Return what is forwarded as one piece; empty at the end."""
        return source.recv(65536)

    def passes(self, data: bytes, client: socket.socket, to_server: bool) -> bool:
        """Return whether a piece is forwarded."""
        del data, client, to_server
        return True

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._target), timeout=5)
                except OSError:
                    client.close()
                    continue
                server.settimeout(None)
                self._open |= {client, server}
                for to_server in (True, False):
                    threading.Thread(target=self._pump, args=(client, server, to_server), daemon=True).start()

    def _pump(self, client: socket.socket, server: socket.socket, to_server: bool) -> None:
        source, sink = (client, server) if to_server else (server, client)
        with suppress(OSError):
            while data := self.read(source):
                self._flowing.wait()
                if self.passes(data, client, to_server):
                    sink.sendall(data)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._open -= {source, sink}
        source.close()


_PRODUCE = 0  # api key


class Loss(StrEnum):
    """The frame that gets lost on the way: a produce request, or the acknowledgement of one that was written."""

    REQUEST = "request"
    ACKNOWLEDGEMENT = "acknowledgement"


class LossyProxy(Proxy):
    """A proxy that forwards whole Kafka frames; ``lose`` makes it lose one, ``lost`` says whether it has."""

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
            if not to_server:
                if self._unanswered != (client, data[4:8]):
                    return True
                self._unanswered, self.lost = None, True
                self.cut()  # the client learns that no answer will come, instead of waiting for its timeout
                return False
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


def _exactly(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = source.recv(size - len(data))
        if not more:
            return b""
        data += more
    return data
