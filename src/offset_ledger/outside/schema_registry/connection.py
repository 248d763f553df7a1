"""The connection to a registry: its settings, and questions by path.

The extra of an Airflow connection has the names of Confluent's own clients. A question goes to the URLs one after the
other, logged in, and is retried until one answers well.
"""

import base64
import json
import ssl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from offset_ledger.base.retry import retrying
from offset_ledger.errors import (
    AccessDenied,
    ConfigurationError,
    OffsetLedgerError,
    RegistryUnavailable,
    SchemaRejected,
    UnusableSchema,
    one_line,
)
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.http.exchange import Answer, HttpClient, Request, Service, exchange
from offset_ledger.outside.http.oauth import Keys, OAuth, TokenSource, is_token_url

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

_SERVICE = Service("schema registry", RegistryUnavailable, UnusableSchema)
_MEDIA = "application/vnd.schemaregistry.v1+json"
_NOT_FOUND = (40401, 40402, 40403, 40408)  # subject, version, schema, a level of its own


@dataclass(frozen=True, slots=True)
class Tls:
    """The certificates: those to trust, and our own."""

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
        raise _wrong(connection, f"a schema registry has conn_type http or https, found {connection.conn_type!r}")
    for name in extra:
        if name not in KNOWN:
            close = get_close_matches(name, KNOWN, n=1)
            hint = f"did you mean {close[0]}? " if close else ""
            raise _wrong(connection, f"{name!r} is no setting of a schema registry; {hint}known: {', '.join(KNOWN)}")
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
            raise _wrong(connection, f"{ISSUER} should be the URL of a token endpoint, without a login in it")
        oauth = OAuth(extra[ISSUER], extra[CLIENT_ID], extra[CLIENT_SECRET], extra.get(SCOPE))
    timeout = extra.get(TIMEOUT, str(_DEFAULT_TIMEOUT))
    try:
        seconds = float(timeout)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 300:
        raise _wrong(connection, f"{TIMEOUT} should be seconds, more than 0 and at most 300, found {timeout!r}")
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


def _wrong(connection: Connection | Settings, text: str) -> ConfigurationError:
    return ConfigurationError(f"connection {connection.conn_id!r}: {text}")


def _urls(connection: Connection) -> tuple[str, ...]:
    hosts = [host for each in (connection.host or "").split(",") if (host := each.strip().rstrip("/"))]
    example = "https://registry.example.com:8081"
    if not hosts:
        raise _wrong(connection, f"host should be the URL of a schema registry, such as {example}")
    schema = connection.schema or connection.conn_type
    if schema not in ("http", "https"):
        text = f"schema should be http or https, found {schema!r}; a path belongs to host, behind the URL"
        raise _wrong(connection, text)
    urls = []
    for host in hosts:
        try:
            parts = urlsplit(host if "://" in host else f"{schema}://{host}")
            port = parts.port
        except ValueError:
            raise _wrong(connection, f"host is no URL; write {example}") from None
        if parts.username is not None:
            raise _wrong(connection, "host has a login in its URL; write it into login and password")
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise _wrong(connection, f"host should be a URL such as {example}, found {host!r}")
        if connection.port and port and connection.port != port:
            raise _wrong(connection, f"host has port {port} and port is {connection.port}; leave one of them out")
        at = f":{connection.port}" if connection.port and not port else ""
        urls.append(f"{parts.scheme}://{parts.netloc}{at}{parts.path}")
    return tuple(urls)


def _basic(connection: Connection) -> str | None:
    info = connection.extra.get(BASIC)
    if info is not None and (connection.login or connection.password):
        raise _wrong(connection, f"login and {BASIC} are two logins; leave one of them out")
    if info is not None and ":" not in info:
        raise _wrong(connection, f"{BASIC} should be user:password")
    if info is None and connection.login is None and connection.password is not None:
        raise _wrong(connection, "it has a password and no login")
    return info or (f"{connection.login}:{connection.password or ''}" if connection.login else None)


def _bearer_source(connection: Connection, login: str | None) -> str | None:
    extra = connection.extra
    source = extra.get(SOURCE)
    if source is None:
        _require_none(connection, (name for name in _BEARER if name not in (CLUSTER, POOL)), f"without {SOURCE}")
        return None
    if source not in ("STATIC_TOKEN", "OAUTHBEARER"):
        raise _wrong(connection, f"{SOURCE} should be STATIC_TOKEN or OAUTHBEARER, found {source!r}")
    if login:
        raise _wrong(connection, f"login and {SOURCE} are two logins; leave one of them out")
    needed, others = ((TOKEN,), (*_OAUTH, SCOPE)) if source == "STATIC_TOKEN" else (_OAUTH, (TOKEN,))
    missing = [name for name in needed if not extra.get(name)]
    if missing:
        raise _wrong(connection, f"{SOURCE} {source} needs {', '.join(missing)}")
    _require_none(connection, others, f"with {SOURCE} {source}")
    return source


def _require_none(connection: Connection, names: Iterable[str], where: str) -> None:
    for name in names:
        if name in connection.extra:
            raise _wrong(connection, f"{name} has no meaning {where}")


class Api:
    """Confluent's REST API of one registry.

    Every method retries while no URL is well, for :func:`~offset_ledger.base.retry.retry_seconds` and the time of the
    last attempt at most, and then raises RegistryUnavailable. It raises AccessDenied where the login may not ask,
    ConfigurationError where the URL is not that of a registry, and SchemaRejected where a schema is refused.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._context = tls_context(settings)
        self._tokens: TokenSource | None = None
        if oauth := settings.oauth:
            self._tokens = TokenSource(oauth, self._context, settings.timeout, OAUTH_KEYS, RegistryUnavailable)
        self._first = 0
        self._open: HttpClient | None = None

    @contextmanager
    def kept_open(self) -> Iterator[None]:
        """Ask over connections that are kept for the length of the block."""
        with HttpClient(_SERVICE, self._context, self._settings.timeout) as self._open:
            try:
                yield
            finally:
                self._open = None

    def ask(self, method: str, path: str, document: object = None) -> Any:
        """The JSON document that the registry answers with; None where it knows no such schema, subject or version."""
        waiting_for = f"the schema registry at {', '.join(self._settings.urls)}"
        try:
            retries = retrying(lambda error: isinstance(error, RegistryUnavailable), waiting_for)
            return retries(self._ask, method, path, document)
        except OffsetLedgerError as error:
            text = str(error)
            for secret in (*self._settings.secrets, *(self._tokens.issued if self._tokens else ())):
                text = text.replace(secret, "***")
            raise type(error)(text) from None

    def _ask(self, method: str, path: str, document: object) -> Any:
        urls = self._settings.urls
        content = json.dumps(document).encode() if document is not None else None
        headers = {"accept": f"{_MEDIA}, application/json"} | ({"content-type": _MEDIA} if content else {})
        for tried in range(1, len(urls) + 1):
            request = Request(method, f"{urls[self._first]}{path}", content, headers)
            try:
                answer = self._send(request)
                if answer.status == 401 and self._tokens:
                    self._tokens.forget()
                    answer = self._send(request)
                return _checked(answer)
            except RegistryUnavailable:
                self._first = (self._first + 1) % len(urls)
                if tried == len(urls):
                    raise

    def _send(self, request: Request) -> Answer:
        login = dict(self._settings.headers)
        if self._tokens:
            login["authorization"] = f"Bearer {self._tokens.token()}"
        if self._open:
            return self._open.exchange(request, login)
        return exchange(_SERVICE, request, login, self._context, self._settings.timeout)


def _checked(answer: Answer) -> Any:
    """Return the document of a good answer, None if the registry does not have it; any other answer has an error."""
    if 200 <= answer.status < 300 and answer.document is not None:
        return answer.document
    error = answer.document if isinstance(answer.document, dict) else {}
    code, message = error.get("error_code"), error.get("message")
    reason = one_line(message, 600) if isinstance(message, str) else ""
    why = f": {reason}" if reason else ""
    if answer.status in (401, 403):
        raise AccessDenied(
            f"the schema registry does not let this login ask {answer.url} (HTTP {answer.status}{why}); correct "
            "the login of the connection or give it the right"
        )
    if answer.status == 404 and code in _NOT_FOUND:
        return None
    if answer.status in (404, 405):
        raise ConfigurationError(
            f"{answer.url} is no URL of a schema registry: {urlsplit(answer.url).path} answers HTTP {answer.status} "
            "without the error code of one; correct host of the connection, with its path (/apis/ccompat/v7 for "
            "Apicurio)"
        )
    if answer.status in (400, 409, 422) and isinstance(code, int):
        raise SchemaRejected(
            f"the schema registry refuses it: {reason or 'without a reason'} (HTTP {answer.status}, code {code}); "
            "correct the schema, or the compatibility level of its subject"
        )
    text = f"{answer.url} answered HTTP {answer.status}{why}"
    if 300 <= answer.status < 400:
        text = f"{answer.url} redirects to {one_line(answer.location, 100) or 'nowhere'}, which is not followed"
    elif answer.document is None:
        text += ", and no JSON"
    raise RegistryUnavailable(f"{text}; check that it is the schema registry and not a proxy or a page before it")


def _context_of_authorities(settings: Settings) -> ssl.SSLContext:
    asked = (*settings.urls, settings.oauth.token_url if settings.oauth else "")
    if not any(url.lower().startswith("https:") for url in asked):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # no URL uses TLS, and reading the authorities takes long
    import httpx  # not before a registry is asked: many verbs have this module, and few pipelines a registry

    return httpx.create_ssl_context()


def tls_context(settings: Settings) -> ssl.SSLContext:
    """A context that checks certificates: against ``ssl.ca.location``, else against the authorities that httpx knows.

    Raises:
        ConfigurationError: a file is missing, or is not what its setting says.
    """
    tls = settings.tls
    for name, path in ((CA, tls.ca), (CERTIFICATE, tls.certificate), (KEY, tls.key)):
        if path and not Path(path).is_file():
            raise _wrong(settings, f"{name} should be a file that is there, found {path!r}")
    if (tls.key or tls.key_password) and not tls.certificate:
        raise _wrong(settings, f"{KEY} and {KEY_PASSWORD} need {CERTIFICATE}")
    try:
        context = ssl.create_default_context(cafile=tls.ca) if tls.ca else _context_of_authorities(settings)
    except (ssl.SSLError, OSError) as error:
        raise _wrong(settings, f"{CA} has no certificates in PEM form ({one_line(error)})") from None
    if tls.certificate:
        try:
            # Without a function, OpenSSL would ask for the password at the terminal.
            context.load_cert_chain(tls.certificate, tls.key, password=lambda: tls.key_password or "")
        except (ssl.SSLError, OSError, ValueError) as error:
            raise _wrong(
                settings,
                f"{CERTIFICATE} and {KEY} should be a certificate and its key in PEM form, the key encrypted with "
                f"{KEY_PASSWORD} or not at all ({one_line(error)})",
            ) from None
    return context
