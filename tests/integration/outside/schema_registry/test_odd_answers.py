"""What is no answer of a registry becomes one clear line within seconds, and no line or log has a secret."""

from __future__ import annotations

import gc
import logging
import re
import socket
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pytest

from offset_ledger.errors import (
    AccessDenied,
    ConfigurationError,
    OffsetLedgerError,
    RegistryUnavailable,
    SchemaRejected,
    UnusableSchema,
)
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.schema_registry.client import Registry, connect_registry
from offset_ledger_kit.sandbox.layout import free_ports
from tests.fixtures.http_server import Asked, answering, send, send_json

SECRET = "hunter2-hunter2"
LOGIN = "Basic dXNlcjpodW50ZXIyLWh1bnRlcjI="
SCHEMA = {"schema": '"string"'}
SOON = 20.0  # seconds, on a machine that is busy; a third of what an answer may take unless a test says 2


@pytest.fixture(autouse=True)
def no_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFSET_LEDGER_RETRY_SECONDS", "0")


@pytest.fixture
def everything_logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.DEBUG):
        yield caplog
    assert SECRET not in caplog.text
    assert LOGIN.split()[1] not in caplog.text


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    """What the first question of a process imports takes none of the seconds that a question has."""
    with answering(respond) as server:
        registry(f"{server.url}/unknown").schema(7)


def registry(url: str, timeout: str = "60") -> Registry:
    return connect_registry(
        Connection("registry_default", "http", url, login="user", password=SECRET, extra={"timeout": timeout})
    )


def respond(handler: BaseHTTPRequestHandler, asked: Asked) -> None:
    """By the first part of the path."""
    kind = asked.path.split("/")[1]
    if kind == "html":
        send(handler, 200, b"<html>Please log in</html>", content_type="text/html")
    elif kind == "html-404":
        send(handler, 404, b"<html>Not here</html>", content_type="text/html")
    elif kind == "json-404":
        send_json(handler, 404, {"title": "Not Found", "status": 404})
    elif kind == "error-404":
        send_json(handler, 404, {"error_code": 404, "message": "HTTP 404 Not Found"})
    elif kind == "unknown":
        send_json(handler, 404, {"error_code": 40403, "message": "Schema 7 not found"})
    elif kind == "nowhere":
        send(handler, 302, location="http://127.0.0.1:1/login?token=abc")
    elif kind == "itself":
        send(handler, 301, location=asked.path)
    elif kind.isdecimal():
        echoed = asked.headers["authorization"]
        send_json(handler, int(kind), {"error_code": int(kind) * 100 + 1, "message": f"no, {SECRET} {echoed}"})
    elif kind == "empty":
        send(handler, 200)
    elif kind == "null":
        send(handler, 200, b"null")
    elif kind == "truncated":
        handler.wfile.write(b'HTTP/1.0 200 OK\r\ncontent-length: 100\r\n\r\n{"schema":')
    elif kind == "short-json":
        send(handler, 200, b'{"schema": "')
    elif kind == "deep":
        send(handler, 200, b"[" * 100_000)
    elif kind == "no-http":
        handler.wfile.write(b"220 mail.example.com ESMTP\r\n")
    elif kind == "silent":
        handler.rfile.read(1)  # returns when the client has gone
    elif kind == "slow-body":
        handler.wfile.write(b"HTTP/1.0 200 OK\r\ncontent-length: 100000\r\n\r\n")
        drip(handler)
    elif kind == "slow-head":
        handler.wfile.write(b"HTTP/1.0 200 OK\r\nx-drip: ")
        drip(handler)
    elif kind == "large":
        handler.wfile.write(b"HTTP/1.0 200 OK\r\ncontent-length: 200000000\r\n\r\n")
        for _ in range(200):
            handler.wfile.write(b" " * 1_000_000)


def drip(handler: BaseHTTPRequestHandler) -> None:
    while True:  # until the client has gone
        handler.wfile.write(b"x")
        handler.wfile.flush()
        time.sleep(0.1)


NO_REGISTRY = (
    r"is no URL of a schema registry: /\S+/schemas/ids/7 answers HTTP 404 without the error code of one; correct"
)
CASES: dict[str, tuple[type[OffsetLedgerError], str]] = {
    "html": (
        RegistryUnavailable,
        r"answered HTTP 200, and no JSON; check that it is the schema registry and not a proxy",
    ),
    "html-404": (ConfigurationError, NO_REGISTRY),
    "json-404": (ConfigurationError, NO_REGISTRY),
    "error-404": (ConfigurationError, NO_REGISTRY),
    "nowhere": (RegistryUnavailable, r"redirects to http://127\.0\.0\.1:1/login, which is not followed"),
    "itself": (RegistryUnavailable, r"redirects to /itself/schemas/ids/7, which is not followed"),
    "401": (AccessDenied, r"does not let this login ask \S+ \(HTTP 401: no, \*\*\* Basic \*\*\*\); correct the login"),
    "403": (AccessDenied, r"does not let this login ask \S+ \(HTTP 403: no, \*\*\* Basic \*\*\*\); correct the login"),
    "422": (SchemaRejected, r"^the schema registry refuses it: no, \*\*\* Basic \*\*\* \(HTTP 422, code 42201\)"),
    "429": (RegistryUnavailable, r"answered HTTP 429: no, \*\*\*"),
    "500": (RegistryUnavailable, r"answered HTTP 500: no, \*\*\*"),
    "503": (RegistryUnavailable, r"answered HTTP 503: no, \*\*\*"),
    "empty": (RegistryUnavailable, r"answered HTTP 200, and no JSON"),
    "null": (RegistryUnavailable, r"answered HTTP 200, and no JSON"),
    "truncated": (RegistryUnavailable, r"did not answer \(RemoteProtocolError: peer closed connection"),
    "short-json": (RegistryUnavailable, r"answered HTTP 200, and no JSON"),
    "deep": (RegistryUnavailable, r"answered HTTP 200, and no JSON"),
    "no-http": (RegistryUnavailable, r"did not answer \(RemoteProtocolError: "),
    "silent": (RegistryUnavailable, r"did not answer completely within 2 s"),
    "slow-body": (RegistryUnavailable, r"did not answer completely within 2 s"),
    "slow-head": (RegistryUnavailable, r"did not answer completely within 2 s"),
    "large": (UnusableSchema, r"answers with more than 4 MiB, which is more than is read here"),
}


@pytest.mark.usefixtures("everything_logged")
@pytest.mark.parametrize("kind", CASES)
def test_each_is_one_line_within_seconds(kind: str) -> None:
    error, line = CASES[kind]
    with answering(respond) as server:
        began = time.monotonic()
        with pytest.raises(error, match=line) as raised:
            registry(f"{server.url}/{kind}", timeout="2" if "within 2 s" in line else "60").schema(7)
        assert time.monotonic() - began < SOON
    assert (type(raised.value), "\n" in str(raised.value)) == (error, False)
    assert not re.search(f"{SECRET}|{LOGIN.split()[1]}|token=abc", str(raised.value))
    assert [(each.path, each.headers["authorization"]) for each in server.asked] == [(f"/{kind}/schemas/ids/7", LOGIN)]


def test_what_the_registry_does_not_know_is_no_error() -> None:
    with answering(respond) as server:
        assert registry(f"{server.url}/unknown").schema(7) is None


@pytest.mark.parametrize(
    ("document", "line"),
    [
        ([1], r"^schema 7: the schema registry answered .*\(Expected `object`, got `array`\); check"),
        ({}, r"^schema 7: .*\(Object missing required field `schema`\)"),
        ({"schema": 5}, r"^schema 7: .*\(Expected `str`, got `int` - at `\$\.schema`\)"),
        (
            {**SCHEMA, "schemaType": ["AVRO"]},
            r"^schema 7: .*\(Expected `str \| null`, got `array` - at `\$\.schemaType`\)",
        ),
        ({**SCHEMA, "references": "x"}, r"^schema 7: .*\(Expected `array \| null`, got `str` - at `\$\.references`\)"),
        ({**SCHEMA, "references": [3]}, r"^schema 7: .*\(Expected `object`, got `int` - at `\$\.references\[0\]`\)"),
        ({**SCHEMA, "guid": "7"}, r"^schema 7: .*\(Invalid UUID - at `\$\.guid`\)"),
        (
            {**SCHEMA, "references": [{"name": "n", "subject": "s", "version": 2**31}]},
            r"^schema 7: .*\(Expected `int` <= 2147483647 - at `\$\.references\[0\]\.version`\)",
        ),
        (
            {**SCHEMA, "references": [{"name": "n", "subject": "s", "version": True}]},
            r"^schema 7: .*\(Expected `int`, got `bool` - at `\$\.references\[0\]\.version`\)",
        ),
    ],
)
def test_wrong_types_are_named(document: object, line: str) -> None:
    with (
        answering(lambda handler, _: send_json(handler, 200, document)) as server,
        pytest.raises(RegistryUnavailable, match=line),
    ):
        registry(server.url).schema(7)


@pytest.mark.parametrize(
    ("document", "line"),
    [
        ({**SCHEMA, "schemaType": ""}, r"^schema 7 is of type '', which is none of AVRO, PROTOBUF, JSON"),
        ({**SCHEMA, "schemaType": "XML"}, r"^schema 7 is of type 'XML', which is none of AVRO, PROTOBUF, JSON"),
        ({"schema": "a\0b"}, r"^the text of schema 7 has U\+0000 or half a surrogate pair"),
        ({"schema": "a\ud800b"}, r"^the text of schema 7 has U\+0000 or half a surrogate pair"),
        (
            {**SCHEMA, "references": [{"name": "n", "subject": "s", "version": 1}]},
            r"^schema 7 refers to version 1 of 's', which refers to itself",
        ),
    ],
)
def test_what_cannot_be_used_is_named(document: object, line: str) -> None:
    with (
        answering(lambda handler, _: send_json(handler, 200, document)) as server,
        pytest.raises(UnusableSchema, match=line),
    ):
        registry(server.url).schema(7)


def test_a_reference_that_is_gone_is_named() -> None:
    def answer(handler: BaseHTTPRequestHandler, asked: Asked) -> None:
        if "subjects" in asked.path:
            send_json(handler, 404, {"error_code": 40401, "message": "gone"})
        else:
            send_json(handler, 200, {**SCHEMA, "references": [{"name": "n.A", "subject": "s", "version": 1}]})

    with (
        answering(answer) as server,
        pytest.raises(
            UnusableSchema, match=r"^the reference 'n\.A' leads to version 1 of 's', which the schema registry"
        ),
    ):
        registry(server.url).schema(7)


def test_a_large_answer_is_not_read_to_its_end() -> None:
    sent = 0

    def answer(handler: BaseHTTPRequestHandler, _: Asked) -> None:
        nonlocal sent
        handler.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n")
        for _ in range(200):
            handler.wfile.write(b" " * 1_000_000)
            sent += 1

    with answering(answer) as server, pytest.raises(UnusableSchema):
        registry(server.url).schema(7)
    gc.collect()
    assert sent < 50


def test_a_text_is_asked_for_once_and_an_unknown_id_each_time() -> None:
    known = {1}

    def answer(handler: BaseHTTPRequestHandler, asked: Asked) -> None:
        number = int(asked.path.split("/")[3])
        if number not in known:
            send_json(handler, 404, {"error_code": 40403, "message": "unknown"})
        else:
            send_json(handler, 200, [] if "/versions" in asked.path else SCHEMA)

    with answering(answer) as server:
        client = registry(server.url)
        assert client.schema(1) is client.schema(1) is not None
        assert (client.schema(2), client.schema(2)) == (None, None)
        known.add(2)
        assert client.schema(2) is not None
    paths, versions = [each.path for each in server.asked], "versions?deleted=true"
    assert paths == [f"/schemas/ids/{path}" for path in ("1", f"1/{versions}", "2", "2", "2", f"2/{versions}")]


def test_the_next_url_is_asked_while_one_is_away_and_stays_the_first() -> None:
    with answering(lambda handler, _: send_json(handler, 200, ["s"])) as server:
        away = f"http://127.0.0.1:{free_ports(1)[0]}"
        client = registry(f"{away}, {server.url}")
        assert (client.subjects(), client.subjects()) == (("s",), ("s",))


def test_where_nobody_listens_it_is_away() -> None:
    url = f"http://127.0.0.1:{free_ports(1)[0]}"
    with pytest.raises(RegistryUnavailable, match=rf"^{url}/schemas/ids/7 did not answer \(ConnectionRefusedError"):
        registry(url).schema(7)
    assert not registry(url).ready()


def test_where_connections_are_not_accepted_it_is_away_in_time() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        began = time.monotonic()
        with pytest.raises(RegistryUnavailable, match="did not answer completely within 2 s"):
            registry(f"http://127.0.0.1:{full.getsockname()[1]}", timeout="2").schema(7)
        assert time.monotonic() - began < SOON


def test_a_short_failure_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFSET_LEDGER_RETRY_SECONDS", "20")
    answers = iter([503, 503, 200])

    def answer(handler: BaseHTTPRequestHandler, _: Asked) -> None:
        send_json(handler, next(answers), ["s"])

    with answering(answer) as server:
        assert registry(server.url).subjects() == ("s",)
    assert len(server.asked) == 3


def test_a_refusal_is_not_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFSET_LEDGER_RETRY_SECONDS", "20")
    with answering(respond) as server:
        with pytest.raises(AccessDenied):
            registry(f"{server.url}/401").subjects()
        assert len(server.asked) == 1


def test_many_questions_take_one_connection() -> None:
    clients = list[object]()

    def unknown(handler: BaseHTTPRequestHandler, _: Asked) -> None:
        clients.append(handler.client_address)
        handler.protocol_version, handler.close_connection = "HTTP/1.1", False
        send_json(handler, 404, {"error_code": 40403, "message": "not found"})

    with answering(unknown) as server:
        asked = registry(server.url)
        with asked.kept_open():
            assert [asked.schema(n) for n in range(50)] == [None] * 50
        assert asked.schema(50) is None
    assert (len(clients), len(set(clients[:50])), len(set(clients))) == (51, 1, 2)
