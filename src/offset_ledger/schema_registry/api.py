"""Questions to a registry by path: logged in, its URLs one after the other, retried while none is well."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from offset_ledger.errors import (
    AccessDenied,
    ConfigurationError,
    OffsetLedgerError,
    RegistryUnavailable,
    SchemaRejected,
    UnusableSchema,
    one_line,
)
from offset_ledger.http.exchange import Answer, HttpClient, Request, Service, exchange
from offset_ledger.http.oauth import TokenSource
from offset_ledger.retry import retrying
from offset_ledger.schema_registry.connection import CA, CERTIFICATE, KEY, KEY_PASSWORD, OAUTH_KEYS, Settings

_SERVICE = Service("schema registry", RegistryUnavailable, UnusableSchema)
_MEDIA = "application/vnd.schemaregistry.v1+json"
_NOT_FOUND = (40401, 40402, 40403, 40408)  # subject, version, schema, a level of its own


class NotFound(Exception):
    """The registry knows no such schema, subject or version; each caller says what that means."""


class Api:
    """Confluent's REST API of one registry.

    Every method retries while no URL is well, for :func:`~offset_ledger.retry.retry_seconds` and the time of the last
    attempt at most, and then raises RegistryUnavailable. It raises AccessDenied where the login may not ask,
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
        """The JSON document that the registry answers with.

        Raises:
            NotFound: it says that it knows no such thing.
        """
        servers = ", ".join(self._settings.urls)
        try:
            return retrying(_is_transient, f"the schema registry at {servers}")(self._ask, method, path, document)
        except OffsetLedgerError as error:
            text = str(error)
            for secret in (*self._settings.secrets, *(self._tokens.issued if self._tokens else ())):
                text = text.replace(secret, "***")
            raise type(error)(text) from None

    def _ask(self, method: str, path: str, document: object) -> Any:
        urls = self._settings.urls
        for tried in range(1, len(urls) + 1):
            try:
                return self._ask_one(urls[self._first], method, path, document)
            except RegistryUnavailable:
                self._first = (self._first + 1) % len(urls)
                if tried == len(urls):
                    raise

    def _ask_one(self, url: str, method: str, path: str, document: object) -> Any:
        content = json.dumps(document).encode() if document is not None else None
        headers = {"accept": f"{_MEDIA}, application/json"} | ({"content-type": _MEDIA} if content else {})
        request = Request(method, f"{url}{path}", content, headers)
        answer = self._send(request)
        if answer.status == 401 and self._tokens:
            self._tokens.forget()
            answer = self._send(request)
        return _checked(answer)

    def _send(self, request: Request) -> Answer:
        login = dict(self._settings.headers)
        if self._tokens:
            login["authorization"] = f"Bearer {self._tokens.token()}"
        if self._open:
            return self._open.exchange(request, login)
        return exchange(_SERVICE, request, login, self._context, self._settings.timeout)


def _is_transient(error: BaseException) -> bool:
    return isinstance(error, RegistryUnavailable)


def _checked(answer: Answer) -> Any:
    """The document of a good answer; each other one has an error."""
    if 200 <= answer.status < 300 and answer.document is not None:
        return answer.document
    why = f": {answer.message}" if answer.message else ""
    if answer.status in (401, 403):
        raise AccessDenied(
            f"the schema registry does not let this login ask {answer.url} (HTTP {answer.status}{why}); correct "
            "the login of the connection or give it the right"
        )
    if answer.status == 404 and answer.error_code in _NOT_FOUND:
        raise NotFound(answer.error_code)
    if answer.status in (404, 405):
        raise ConfigurationError(
            f"{answer.url} is no URL of a schema registry: {urlsplit(answer.url).path} answers HTTP {answer.status} "
            "without the error code of one; correct host of the connection, with its path (/apis/ccompat/v7 for "
            "Apicurio)"
        )
    if answer.status in (400, 409, 422) and answer.error_code is not None:
        raise SchemaRejected(
            f"the schema registry refuses it: {answer.message or 'without a reason'} (HTTP {answer.status}, code "
            f"{answer.error_code}); correct the schema, or the compatibility level of its subject"
        )
    text = f"{answer.url} answered HTTP {answer.status}{why}"
    if 300 <= answer.status < 400:
        text = f"{answer.url} redirects to {one_line(answer.location, 100) or 'nowhere'}, which is not followed"
    elif answer.document is None:
        text += ", and no JSON"
    raise RegistryUnavailable(f"{text}; check that it is the schema registry and not a proxy or a page before it")


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
        context = ssl.create_default_context(cafile=tls.ca) if tls.ca else httpx.create_ssl_context()
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


def _wrong(settings: Settings, text: str) -> ConfigurationError:
    return ConfigurationError(f"connection {settings.conn_id!r}: {text}")
