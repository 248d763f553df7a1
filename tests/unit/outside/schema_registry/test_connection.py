"""What a connection says about a schema registry, and what it may not say."""

from __future__ import annotations

import ssl

import pytest

from offset_ledger.errors import ConfigurationError
from offset_ledger.outside.connections import Connection, parse_connection
from offset_ledger.outside.http.oauth import OAuth
from offset_ledger.outside.schema_registry.connection import Settings, Tls, registry_settings, tls_context

BEARER = "bearer.auth.credentials.source"
OAUTH = {
    BEARER: "OAUTHBEARER",
    "bearer.auth.client.id": "me",
    "bearer.auth.client.secret": "hunter2",
    "bearer.auth.issuer.endpoint.url": "https://issuer/token",
}


def connection(**values: object) -> Connection:
    return Connection(**{"conn_id": "r", "conn_type": "http", "host": "http://h:1", **values})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "urls"),
    [
        ({"host": "https://h:8081/apis/ccompat/v7/"}, ("https://h:8081/apis/ccompat/v7",)),
        ({"host": "h", "port": 8081}, ("http://h:8081",)),
        ({"host": "h", "port": 8081, "schema": "https"}, ("https://h:8081",)),
        ({"host": "h", "conn_type": "https"}, ("https://h",)),
        ({"host": "h:9/api"}, ("http://h:9/api",)),
        ({"host": "https://h/api", "port": 8081}, ("https://h:8081/api",)),
        ({"host": "https://h:8081", "port": 8081}, ("https://h:8081",)),
        ({"host": "http://a:1, https://b:2/x ,"}, ("http://a:1", "https://b:2/x")),
        ({"host": "http://[::1]:8081"}, ("http://[::1]:8081",)),
    ],
)
def test_urls(values: dict[str, object], urls: tuple[str, ...]) -> None:
    assert registry_settings(connection(**values)).urls == urls


@pytest.mark.parametrize(
    ("uri", "url"),
    [
        ("http://u:p@h:8081", "http://h:8081"),
        ("http://u:p@h:8081/https", "https://h:8081"),
        ("https://u:p@h", "https://h"),
    ],
)
def test_airflows_uri_form(uri: str, url: str) -> None:
    settings = registry_settings(parse_connection("r", uri))
    assert (settings.urls, settings.headers) == ((url,), {"authorization": "Basic dTpw"})


def test_everything_at_once() -> None:
    tls = {"ssl.ca.location": "ca", "ssl.certificate.location": "crt", "ssl.key.location": "key"}
    extra = {**OAUTH, **tls, "ssl.key.password": "locked", "bearer.auth.scope": "s", "timeout": "2.5"}
    extra |= {"bearer.auth.logical.cluster": "lsrc", "bearer.auth.identity.pool.id": "pool"}
    assert registry_settings(connection(extra=extra)) == Settings(
        "r",
        ("http://h:1",),
        {"target-sr-cluster": "lsrc", "confluent-identity-pool-id": "pool"},
        OAuth("https://issuer/token", "me", "hunter2", "s"),
        Tls("ca", "crt", "key", "locked"),
        2.5,
        ("hunter2", "locked"),
    )


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"conn_type": "kafka"}, "a schema registry has conn_type http or https, found 'kafka'"),
        ({"host": None}, "host should be the URL of a schema registry, such as "),
        ({"host": " , "}, "host should be the URL of a schema registry, such as "),
        ({"host": "ftp://h"}, "host should be a URL such as https://registry.example.com:8081, found 'ftp://h'"),
        ({"host": "http://h/?a=b"}, "host should be a URL such as "),
        ({"host": "http://h:port"}, "host is no URL; write "),
        ({"host": "http://u:hunter2@h"}, "host has a login in its URL; write it into login and password"),
        ({"host": "http://h:1", "port": 2}, "host has port 1 and port is 2; leave one of them out"),
        ({"schema": "apis/v7"}, "schema should be http or https, found 'apis/v7'; a path belongs to host"),
        ({"extra": {"ssl.ca.loction": "x"}}, "'ssl.ca.loction' is no setting of a schema registry; did you mean ssl"),
        ({"extra": {"qqq": "hunter2"}}, "'qqq' is no setting of a schema registry; known: basic.auth.user.info"),
        ({"extra": {"basic.auth.user.info": "hunter2"}}, "basic.auth.user.info should be user:password"),
        ({"extra": {"basic.auth.user.info": "u:hunter2"}, "login": "u"}, "login and basic.auth.user.info are two"),
        ({"password": "hunter2"}, "it has a password and no login"),
        ({"extra": OAUTH, "login": "u", "password": "hunter2"}, f"login and {BEARER} are two logins"),
        ({"extra": {BEARER: "CUSTOM"}}, f"{BEARER} should be STATIC_TOKEN or OAUTHBEARER, found 'CUSTOM'"),
        ({"extra": {BEARER: "STATIC_TOKEN"}}, f"{BEARER} STATIC_TOKEN needs bearer.auth.token"),
        ({"extra": {**OAUTH, "bearer.auth.client.secret": ""}}, f"{BEARER} OAUTHBEARER needs bearer.auth.client"),
        ({"extra": {**OAUTH, "bearer.auth.token": "hunter2"}}, f"bearer.auth.token has no meaning with {BEARER}"),
        ({"extra": {"bearer.auth.token": "hunter2"}}, f"bearer.auth.token has no meaning without {BEARER}"),
        (
            {"extra": {**OAUTH, "bearer.auth.issuer.endpoint.url": "https://u:hunter2@h"}},
            "bearer.auth.issuer.endpoint.url should be the URL of a token endpoint, without a login in it",
        ),
        ({"extra": {"timeout": "soon"}}, "timeout should be seconds, more than 0 and at most 300, found 'soon'"),
        ({"extra": {"timeout": "nan"}}, "timeout should be seconds, more than 0 and at most 300, found 'nan'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_without_secrets(values: dict[str, object], line: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        registry_settings(connection(**values))
    assert str(raised.value).startswith(f"connection 'r': {line}")
    assert "hunter2" not in str(raised.value)


def test_settings_show_no_secret() -> None:
    extra = {"ssl.key.password": "hunter2"}
    shown = [repr(registry_settings(connection(extra={**OAUTH, **extra})))]
    shown += [repr(registry_settings(connection(login="u", password="hunter2", extra=extra)))]
    assert [text for text in shown if "hunter2" in text or "dTpodW50ZXIy" in text] == []


@pytest.mark.parametrize(
    ("host", "extra", "wanted"),
    [
        ("http://h:8081", {}, False),
        ("http://h:8081", {**OAUTH, "bearer.auth.issuer.endpoint.url": "http://t/token"}, False),
        ("https://h:8081", {}, True),
        ("http://h:8081,https://i:8081", {}, True),
        ("http://h:8081", {**OAUTH, "bearer.auth.issuer.endpoint.url": "HTTPS://t/token"}, True),
    ],
)
def test_the_authorities_are_read_where_something_is_asked_by_tls(
    host: str, extra: dict[str, str], wanted: bool
) -> None:
    """For to read them takes longer than to ask a registry."""
    context = tls_context(registry_settings(connection(host=host, extra=extra)))
    assert (context.cert_store_stats()["x509_ca"] > 0) is wanted
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
