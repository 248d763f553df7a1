"""The kind of server at an address: asked only after a connection has failed, to name the cause at once."""

import socket
import ssl
import struct
from dataclasses import dataclass

from offset_ledger.errors import UnknownHost

_SECONDS = 2.0  # for each exchange
# Not the error of a DNS server that is unavailable.
_UNKNOWN = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}

_SASL_HANDSHAKE, _ILLEGAL_SASL_STATE, _CORRELATION = 17, 34, 0x6F6C6564
_REQUEST = struct.pack(">hhih13sh5s", _SASL_HANDSHAKE, 1, _CORRELATION, 13, b"offset-ledger", 5, b"PLAIN")
_FRAMED = struct.pack(">i", len(_REQUEST)) + _REQUEST


@dataclass(frozen=True, slots=True)
class Listener:
    """A server by its first answer; ``protocol`` is Kafka's security.protocol where it is known to be a broker."""

    name: str
    protocol: str | None = None


POSTGRES, TLS, HTTP = Listener("Postgres"), Listener("a server that speaks TLS"), Listener("an HTTP server")


def listener_at(where: str, host: str, port: int) -> Listener | None:
    """Return what listens there, judging by its answer to Kafka's SaslHandshake, or None; ``where`` is for the error.

    Raises:
        UnknownHost: the name of the host does not resolve.
    """
    try:
        with socket.create_connection((host, port), _SECONDS) as plain:
            answer = _ask(plain)
        if answer[:1] not in (b"", b"\x15"):  # an alert of TLS
            return _known(answer, "PLAINTEXT")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with socket.create_connection((host, port), _SECONDS) as plain:
            try:
                with context.wrap_socket(plain, server_hostname=host) as encrypted:
                    return _known(_ask(encrypted), "SSL") or TLS
            except ssl.SSLError as error:
                return TLS if "ALERT" in (error.reason or "") else None
    except OSError as error:
        if isinstance(error, socket.gaierror) and error.errno in _UNKNOWN:
            raise UnknownHost(
                f"{where}: the host name {host!r} does not resolve on this machine ({error.strerror}); correct the "
                "host of the connection, or the DNS"
            ) from None
        return None


def _ask(server: socket.socket) -> bytes:
    """Return the first bytes of the answer; none if the server closes. One that waits for more is unknown."""
    try:
        server.sendall(_FRAMED)
        return server.recv(4096)
    except ConnectionError:
        return b""


def _known(answer: bytes, transport: str) -> Listener | None:
    if answer[:1] == b"E" and b"FATAL" in answer:
        return POSTGRES
    if answer.startswith(b"HTTP/"):
        return HTTP
    if len(answer) < 10 or struct.unpack_from(">i", answer, 4)[0] != _CORRELATION:
        return None
    asks_login = struct.unpack_from(">h", answer, 8)[0] != _ILLEGAL_SASL_STATE
    protocol = f"{'SASL_' if asks_login else ''}{transport}"
    return Listener(f"a {protocol} listener of Kafka", protocol)
