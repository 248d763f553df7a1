"""Who the client says it is, and whom it trusts: the headers that arrive, and certificates on both sides."""

from __future__ import annotations

import base64
import logging
import socket
import ssl
import struct
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from offset_ledger.errors import AccessDenied, ConfigurationError, OffsetLedgerError, RegistryUnavailable
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.schema_registry.client import Registry, connect_registry
from tests.fixtures.certificates import Authority, Issued
from tests.fixtures.http_server import Asked, Respond, answering, send, send_json

CLIENT, SECRET, TOKEN = "ledger", "hunter2: the secret/+", "tok-1.abc"


@pytest.fixture(autouse=True)
def no_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFSET_LEDGER_RETRY_SECONDS", "0")


def registry(url: str, login: str | None = None, password: str | None = None, **extra: str) -> Registry:
    settings = {name.replace("_", "."): value for name, value in extra.items()}
    return connect_registry(
        Connection("registry_default", "http", url, login=login, password=password, extra={"timeout": "60", **settings})
    )


def no_subjects(handler: BaseHTTPRequestHandler, _: Asked) -> None:
    send_json(handler, 200, [])


def basic(pair: str) -> str:
    return "Basic " + base64.b64encode(pair.encode()).decode()


# -- headers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("login", "extra", "headers"),
    [
        ((None, None), {}, {"authorization": None}),
        (("user", "pass:wörd"), {}, {"authorization": basic("user:pass:wörd")}),
        ((None, None), {"basic_auth_user_info": "key:se:cret"}, {"authorization": basic("key:se:cret")}),
        (
            (None, None),
            {
                "bearer_auth_credentials_source": "STATIC_TOKEN",
                "bearer_auth_token": TOKEN,
                "bearer_auth_logical_cluster": "lsrc-1",
                "bearer_auth_identity_pool_id": "pool-2",
            },
            {
                "authorization": f"Bearer {TOKEN}",
                "target-sr-cluster": "lsrc-1",
                "confluent-identity-pool-id": "pool-2",
            },
        ),
    ],
    ids=["none", "login", "user.info", "token"],
)
def test_the_login_arrives(
    login: tuple[str | None, str | None], extra: dict[str, str], headers: dict[str, str | None]
) -> None:
    with answering(no_subjects) as server:
        assert registry(server.url, *login, **extra).subjects() == ()
    (asked,) = server.asked
    assert {name: asked.headers.get(name) for name in headers} == headers


# -- tokens ----------------------------------------------------------------------------------------------------


class Issuer:
    """A token endpoint and a registry: each token that it gives is accepted once it is the newest."""

    def __init__(self, seconds: object = 3600) -> None:
        self.seconds = seconds
        self.given = 0
        self.revoked = 0

    def __call__(self, handler: BaseHTTPRequestHandler, asked: Asked) -> None:
        if asked.path == "/token":
            self.given += 1
            send_json(handler, 200, {"access_token": f"secret-{self.given}", "expires_in": self.seconds})
        elif asked.headers.get("authorization") == f"Bearer secret-{self.given}" and self.given > self.revoked:
            send_json(handler, 200, [])
        else:
            send_json(handler, 401, {"error_code": 401, "message": f"not {asked.headers.get('authorization')}"})


def with_oauth(url: str, token_url: str | None = None, **extra: str) -> Registry:
    return registry(
        url,
        bearer_auth_credentials_source="OAUTHBEARER",
        bearer_auth_client_id=CLIENT,
        bearer_auth_client_secret=SECRET,
        bearer_auth_issuer_endpoint_url=token_url or f"{url}/token",
        **extra,
    )


def test_a_token_is_asked_for_once_and_arrives(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), answering(Issuer()) as server:
        client = with_oauth(server.url, bearer_auth_scope="schemas read")
        assert (client.subjects(), client.subjects()) == ((), ())
    assert [each.path for each in server.asked] == ["/token", "/subjects", "/subjects"]
    asked = server.asked[0]
    assert parse_qs(asked.body.decode()) == {"grant_type": ["client_credentials"], "scope": ["schemas read"]}
    assert asked.headers["content-type"] == "application/x-www-form-urlencoded"
    assert asked.headers["authorization"] == basic("ledger:hunter2%3A%20the%20secret%2F%2B")
    assert not any(hidden in caplog.text for hidden in (SECRET, "secret-1", asked.headers["authorization"]))


UNKNOWN_SECONDS = {"1e400": 10**400, "NaN": float("nan"), "infinity": float("inf"), "text": "soon", "null": None}


@pytest.mark.parametrize("seconds", UNKNOWN_SECONDS.values(), ids=UNKNOWN_SECONDS)
def test_a_token_of_unknown_time_is_used_for_some_minutes(seconds: object) -> None:
    begun = time.monotonic()
    with answering(Issuer(seconds)) as server:
        client = with_oauth(server.url)
        assert (client.subjects(), client.subjects()) == ((), ())
    assert [each.path for each in server.asked] == ["/token", "/subjects", "/subjects"]
    assert client._api._tokens is not None
    assert 200 < client._api._tokens._until - begun < 300


@pytest.mark.parametrize("seconds", [0, -5])
def test_a_token_that_has_expired_is_replaced(seconds: int) -> None:
    with answering(Issuer(seconds)) as server:
        client = with_oauth(server.url)
        assert (client.subjects(), client.subjects()) == ((), ())
    assert [each.path for each in server.asked] == ["/token", "/subjects"] * 2


@pytest.mark.parametrize("seconds", [None, "soon", True])
def test_a_token_without_a_readable_end_is_used(seconds: object) -> None:
    with answering(Issuer(seconds)) as server:
        assert with_oauth(server.url).subjects() == ()


def test_a_token_that_the_registry_refuses_is_replaced_once() -> None:
    issuer = Issuer()
    with answering(issuer) as server:
        client = with_oauth(server.url)
        assert client.subjects() == ()
        issuer.revoked = 1
        assert client.subjects() == ()
        issuer.revoked = 9
        with pytest.raises(AccessDenied, match=r"HTTP 401: not Bearer \*\*\*\); correct the login of the connection"):
            client.subjects()
    assert issuer.given == 3


def refuse(status: int, document: object) -> Respond:
    return lambda handler, _: send_json(handler, status, document)


@pytest.mark.parametrize(
    ("respond", "error", "line"),
    [
        (refuse(401, {"error": "invalid_client"}), AccessDenied, r"refuses this client \(HTTP 401\); correct bearer"),
        (refuse(400, {"error": "invalid_client"}), AccessDenied, r"refuses this client \(HTTP 400\); correct bearer"),
        (refuse(400, {"error": "invalid_scope"}), ConfigurationError, r"refuses the request \(HTTP 400, invalid_scope"),
        (refuse(404, {}), ConfigurationError, r"refuses the request \(HTTP 404\); check bearer\.auth\.issuer"),
        (refuse(503, {}), RegistryUnavailable, r"gave no token \(HTTP 503\)"),
        (refuse(200, {"token": "x"}), RegistryUnavailable, r"gave no token \(HTTP 200\)"),
        (refuse(200, {"access_token": "a\r\nb"}), RegistryUnavailable, r"gave no token \(HTTP 200\)"),
        (lambda handler, _: send(handler, 200, b"<html>"), RegistryUnavailable, r"gave no token \(HTTP 200\)"),
    ],
)  # fmt: skip
def test_a_token_endpoint_that_gives_none_is_named(respond: Respond, error: type[OffsetLedgerError], line: str) -> None:
    with answering(respond) as issuer, answering(no_subjects) as server:
        token_url = f"{issuer.url}/token"
        with pytest.raises(error, match=rf"^the token endpoint {token_url} {line}") as raised:
            with_oauth(server.url, token_url).subjects()
    assert SECRET not in str(raised.value)
    assert server.asked == []


# -- certificates ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server_side(authority: Authority) -> ssl.SSLContext:
    return serving(authority.issue("server"))


def serving(issued: Issued, clients_of: Authority | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.certificate, issued.key)
    if clients_of:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(clients_of.file)
    return context


def test_a_private_authority_is_trusted_where_it_is_named(authority: Authority, server_side: ssl.SSLContext) -> None:
    with answering(no_subjects, server_side) as server:
        assert registry(server.url, ssl_ca_location=str(authority.file)).subjects() == ()


def test_the_token_endpoint_is_trusted_by_the_same_authority(authority: Authority, server_side: ssl.SSLContext) -> None:
    with answering(Issuer(), server_side) as server:
        assert with_oauth(server.url, ssl_ca_location=str(authority.file)).subjects() == ()


def test_an_unknown_authority_is_refused(server_side: ssl.SSLContext, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")
    for extra in ({}, {"ssl_ca_location": str(other.file)}):
        with (
            answering(no_subjects, server_side) as server,
            pytest.raises(ConfigurationError, match=r"certificate that is not trusted \(.*\); set ssl\.ca\.location"),
        ):
            registry(server.url, **extra).subjects()


def test_a_certificate_for_another_host_is_refused(authority: Authority, server_side: ssl.SSLContext) -> None:
    with answering(no_subjects, server_side) as server:
        client = registry(server.url.replace("127.0.0.1", "localhost"), ssl_ca_location=str(authority.file))
        with pytest.raises(ConfigurationError, match=r"certificate for another name \(Hostname mismatch"):
            client.subjects()


def test_tls_where_there_is_none_is_named(authority: Authority) -> None:
    with (
        answering(no_subjects) as server,
        pytest.raises(ConfigurationError, match=r"does not speak TLS \(\w+\); write http://"),
    ):
        registry(server.url.replace("http:", "https:"), ssl_ca_location=str(authority.file)).subjects()


@pytest.mark.parametrize("password", [None, "key pass"])
def test_a_client_certificate_is_shown(authority: Authority, password: str | None) -> None:
    mine = authority.issue("client", password)
    extra = {"ssl_certificate_location": str(mine.certificate), "ssl_key_location": str(mine.key)}
    extra |= {"ssl_key_password": password} if password else {}
    with answering(no_subjects, serving(authority.issue("server"), clients_of=authority)) as server:
        assert registry(server.url, ssl_ca_location=str(authority.file), **extra).subjects() == ()


def test_a_missing_client_certificate_is_named(authority: Authority, tmp_path: Path) -> None:
    stranger = Authority(tmp_path, "stranger").issue("stranger")
    theirs = {"ssl_certificate_location": str(stranger.certificate), "ssl_key_location": str(stranger.key)}
    for extra in ({}, theirs):
        with (
            answering(no_subjects, serving(authority.issue("server"), clients_of=authority)) as server,
            pytest.raises(ConfigurationError, match=r"refuses this client's certificate, or expects one \(\w+ALERT"),
        ):
            registry(server.url, ssl_ca_location=str(authority.file), **extra).subjects()


def test_a_connection_that_is_reset_over_tls_may_want_a_certificate() -> None:
    """As a server does that ends a handshake without reading on: the system drops its alert."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        thread = threading.Thread(target=_reset, args=(listening,))
        thread.start()
        with pytest.raises(
            RegistryUnavailable, match=r"\(ConnectionResetError: .*, and whether it expects a certificate"
        ):
            registry(f"https://127.0.0.1:{listening.getsockname()[1]}").subjects()
        thread.join()


def _reset(listening: socket.socket) -> None:
    connection, _ = listening.accept()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


@pytest.mark.parametrize("password", [None, "not it"])
def test_a_key_whose_password_is_wrong_is_named_without_it(authority: Authority, password: str | None) -> None:
    mine = authority.issue("locked", "key pass")
    extra = {"ssl_key_password": password} if password else {}
    with pytest.raises(ConfigurationError, match=r"the key encrypted with ssl\.key\.password or not at all") as raised:
        registry(
            "https://127.0.0.1:1",
            ssl_certificate_location=str(mine.certificate),
            ssl_key_location=str(mine.key),
            **extra,
        )
    assert "not it" not in str(raised.value)


def test_files_that_are_missing_or_no_certificates_are_named(authority: Authority, tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("no certificate")
    for extra, line in (
        (
            {"ssl_ca_location": "/no/such.pem"},
            r"ssl\.ca\.location should be a file that is there, found '/no/such",
        ),
        ({"ssl_ca_location": str(empty)}, r"ssl\.ca\.location has no certificates in PEM form"),
        ({"ssl_key_location": str(authority.file)}, r"ssl\.key\.location and ssl\.key\.password need ssl\.certificate"),
        ({"ssl_certificate_location": str(empty)}, r"should be a certificate and its key in PEM form"),
    ):
        with pytest.raises(ConfigurationError, match=rf"^connection 'registry_default': .*{line}"):
            registry("https://127.0.0.1:1", **extra)
