"""A TCP proxy on the loopback, to cut or to hold the network between a worker and Postgres."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress


class Proxy:
    """Forwards every connection to ``port``; listens on ``self.port`` until closed."""

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

    def hold(self) -> None:
        """Forward nothing, and keep the connections open."""
        self._flowing.clear()

    def release(self) -> None:
        """Forward again, what was held included."""
        self._flowing.set()

    def close(self) -> None:
        """Stop listening and reset everything."""
        self._listener.close()
        self.release()
        self.cut()

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
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._flowing.wait()
                sink.sendall(data)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._open -= {source, sink}
        source.close()
