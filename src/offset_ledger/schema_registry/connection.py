"""An Airflow connection as settings of the registry client; its extra has the names of Confluent's own clients."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from urllib.parse import urlsplit

from offset_ledger.connections import Connection
from offset_ledger.errors import ConfigurationError
from offset_ledger.http.oauth import Keys, OAuth, is_token_url

BASIC = "basic.auth.user.info"
SOURCE = "bearer.auth.credentials.source"
TOKEN = "bearer.auth.token"
CLUSTER = "bearer.auth.logical.cluster"
POOL = "bearer.auth.identity.pool.id"
CLIENT_ID = "bearer.auth.client.id"
CLIENT_SECRET = "bearer.auth.client.secret"
SCOPE = "bearer.auth.scope"
ISSUER = "bearer.auth.issuer.endpoint.url"
CA = "ssl.ca.location"
CERTIFICATE = "ssl.certificate.location"
KEY = "ssl.key.location"
KEY_PASSWORD = "ssl.key.password"
TIMEOUT = "timeout"

OAUTH_KEYS = Keys(ISSUER, CLIENT_ID, CLIENT_SECRET, SCOPE)
_OAUTH = (CLIENT_ID, CLIENT_SECRET, ISSUER)
_BEARER = (SOURCE, TOKEN, CLUSTER, POOL, *_OAUTH, SCOPE)
KNOWN = (BASIC, *_BEARER, CA, CERTIFICATE, KEY, KEY_PASSWORD, TIMEOUT)
_DEFAULT_TIMEOUT = 15.0


@dataclass(frozen=True, slots=True)
class Tls:
    """Certificates: whom to trust, and who we are."""

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    key_password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Settings:
    """The way to a registry: ``urls`` are tried one after the other, ``headers`` go with each request."""

    conn_id: str
    urls: tuple[str, ...]
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    oauth: OAuth | None = None
    tls: Tls = Tls()
    timeout: float = _DEFAULT_TIMEOUT
    secrets: tuple[str, ...] = field(default=(), repr=False)


def registry_settings(connection: Connection) -> Settings:
    """The settings that the connection has.

    Raises:
        ConfigurationError: it has an unknown key, no URL, two ways to log in, or half of one; no message has a secret.
    """
    extra = connection.extra
    if connection.conn_type not in ("http", "https"):
        raise wrong(connection, f"a schema registry has conn_type http or https, found {connection.conn_type!r}")
    for name in extra:
        if name not in KNOWN:
            close = get_close_matches(name, KNOWN, n=1)
            hint = f"did you mean {close[0]}? " if close else ""
            raise wrong(connection, f"{name!r} is no setting of a schema registry; {hint}known: {', '.join(KNOWN)}")
    login = _basic(connection)
    source = _bearer_source(connection, login)
    headers = {"target-sr-cluster": extra.get(CLUSTER), "confluent-identity-pool-id": extra.get(POOL)}
    if login:
        headers["authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
    elif source == "STATIC_TOKEN":
        headers["authorization"] = f"Bearer {extra[TOKEN]}"
    oauth = None
    if source == "OAUTHBEARER":
        if not is_token_url(extra[ISSUER]):
            raise wrong(connection, f"{ISSUER} should be the URL of a token endpoint, without a login in it")
        oauth = OAuth(extra[ISSUER], extra[CLIENT_ID], extra[CLIENT_SECRET], extra.get(SCOPE))
    timeout = extra.get(TIMEOUT, str(_DEFAULT_TIMEOUT))
    try:
        seconds = float(timeout)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 300:
        raise wrong(connection, f"{TIMEOUT} should be seconds, more than 0 and at most 300, found {timeout!r}")
    secrets = [connection.password, *(extra.get(name) for name in (BASIC, TOKEN, CLIENT_SECRET, KEY_PASSWORD))]
    secrets += [extra.get(BASIC, "").partition(":")[2], (headers.get("authorization") or "").partition(" ")[2]]
    return Settings(
        connection.conn_id,
        _urls(connection),
        {name: value for name, value in headers.items() if value},
        oauth,
        Tls(*(extra.get(name) for name in (CA, CERTIFICATE, KEY, KEY_PASSWORD))),
        seconds,
        tuple(sorted({each for each in secrets if each}, key=len, reverse=True)),
    )


def wrong(connection: Connection, text: str) -> ConfigurationError:
    """The error for a value of this connection."""
    return ConfigurationError(f"connection {connection.conn_id!r}: {text}")


def _urls(connection: Connection) -> tuple[str, ...]:
    hosts = [host for each in (connection.host or "").split(",") if (host := each.strip().rstrip("/"))]
    if not hosts:
        raise wrong(
            connection, "host should be the URL of a schema registry, such as https://registry.example.com:8081"
        )
    return tuple(_url(connection, host) for host in hosts)


def _url(connection: Connection, host: str) -> str:
    schema = connection.schema or connection.conn_type
    if schema not in ("http", "https"):
        raise wrong(
            connection, f"schema should be http or https, found {schema!r}; a path belongs to host, behind the URL"
        )
    url = host if "://" in host else f"{schema}://{host}"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise wrong(connection, "host is no URL; write https://registry.example.com:8081") from None
    if parts.username is not None:
        raise wrong(connection, "host has a login in its URL; write it into login and password")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise wrong(connection, f"host should be a URL such as https://registry.example.com:8081, found {host!r}")
    if connection.port and port and connection.port != port:
        raise wrong(connection, f"host has port {port} and port is {connection.port}; leave one of them out")
    at = f":{connection.port}" if connection.port and not port else ""
    return f"{parts.scheme}://{parts.netloc}{at}{parts.path}"


def _basic(connection: Connection) -> str | None:
    info = connection.extra.get(BASIC)
    if info is not None and (connection.login or connection.password):
        raise wrong(connection, f"login and {BASIC} are two logins; leave one of them out")
    if info is not None and ":" not in info:
        raise wrong(connection, f"{BASIC} should be user:password")
    if info is None and connection.login is None and connection.password is not None:
        raise wrong(connection, "it has a password and no login")
    return info or (f"{connection.login}:{connection.password or ''}" if connection.login else None)


def _bearer_source(connection: Connection, login: str | None) -> str | None:
    extra = connection.extra
    source = extra.get(SOURCE)
    if source is None:
        _require_none(connection, (name for name in _BEARER if name not in (CLUSTER, POOL)), f"without {SOURCE}")
        return None
    if source not in ("STATIC_TOKEN", "OAUTHBEARER"):
        raise wrong(connection, f"{SOURCE} should be STATIC_TOKEN or OAUTHBEARER, found {source!r}")
    if login:
        raise wrong(connection, f"login and {SOURCE} are two logins; leave one of them out")
    needed, others = ((TOKEN,), (*_OAUTH, SCOPE)) if source == "STATIC_TOKEN" else (_OAUTH, (TOKEN,))
    missing = [name for name in needed if not extra.get(name)]
    if missing:
        raise wrong(connection, f"{SOURCE} {source} needs {', '.join(missing)}")
    _require_none(connection, others, f"with {SOURCE} {source}")
    return source


def _require_none(connection: Connection, names: Iterable[str], where: str) -> None:
    for name in names:
        if name in connection.extra:
            raise wrong(connection, f"{name} has no meaning {where}")
