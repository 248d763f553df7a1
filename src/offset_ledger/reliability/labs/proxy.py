"""A TCP proxy on the loopback, to cut or to stall the network between a client and a server."""

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

    def stall(self) -> None:
        """Forward nothing, and keep the connections open."""
        self._flowing.clear()

    def release(self) -> None:
        """Forward again, what was stalled included."""
        self._flowing.set()

    def close(self) -> None:
        """Stop listening and reset everything."""
        self._listener.close()
        self.release()
        self.cut()

    def read(self, source: socket.socket) -> bytes:
        """What is forwarded as one piece; empty at the end."""
        return source.recv(65536)

    def passes(self, data: bytes, client: socket.socket, to_server: bool) -> bool:
        """Whether a piece is forwarded."""
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
