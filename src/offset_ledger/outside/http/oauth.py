"""Bearer tokens of a token endpoint (OAuth 2.0, client credentials), each used for most of its lifetime."""

import base64
import ssl
import threading
import time
from dataclasses import dataclass, field
from urllib.parse import quote, urlencode, urlsplit

from offset_ledger.errors import AccessDenied, ConfigurationError, OffsetLedgerError
from offset_ledger.outside.http.exchange import Answer, Request, Service, exchange

_REFUSED = {"invalid_client", "unauthorized_client", "invalid_grant", "access_denied"}
_USED_SHARE = 0.8
_DEFAULT_SECONDS, _MOST_SECONDS = 300.0, 1e9


@dataclass(frozen=True, slots=True)
class Keys:
    """The names of the client credentials in a connection's extra."""

    token_url: str
    client_id: str
    client_secret: str
    scope: str


@dataclass(frozen=True, slots=True)
class OAuth:
    """The client credentials that a token endpoint gives a bearer token for."""

    token_url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None


def is_token_url(url: str) -> bool:
    """Return whether it can be the URL of a token endpoint: HTTP, and without a login in it."""
    parts = urlsplit(url)
    return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None


class TokenSource:
    """The current token, renewed when it is about to expire. ``issued`` is what no message may show."""

    def __init__(
        self, oauth: OAuth, context: ssl.SSLContext, timeout: float, keys: Keys, unavailable: type[OffsetLedgerError]
    ) -> None:
        self._oauth, self._context, self._timeout, self._keys = oauth, context, timeout, keys
        self._service = Service("token endpoint", unavailable, ConfigurationError)
        self._lock = threading.Lock()
        self._token: str | None = None
        self._until = 0.0
        self.expires_at = 0.0  # by the clock, in seconds since 1970
        self.issued: tuple[str, ...] = ()

    def token(self) -> str:
        """The token to send.

        Raises:
            OffsetLedgerError: ``unavailable``: the token endpoint gave no token.
            AccessDenied: it refuses the client id or its secret.
            ConfigurationError: it refuses the request, such as its scope.
        """
        with self._lock:
            if self._token is None or time.monotonic() >= self._until:
                self._token, seconds = self._fetch()
                self._until = time.monotonic() + seconds * _USED_SHARE
                self.expires_at = time.time() + seconds
                self.issued = (self._token,)
            return self._token

    def forget(self) -> None:
        """The next question needs another token: the registry has refused this one."""
        with self._lock:
            self._token = None

    def _fetch(self) -> tuple[str, float]:
        form = {"grant_type": "client_credentials"} | ({"scope": self._oauth.scope} if self._oauth.scope else {})
        pair = f"{quote(self._oauth.client_id, safe='')}:{quote(self._oauth.client_secret, safe='')}"
        login = {"authorization": "Basic " + base64.b64encode(pair.encode()).decode()}
        headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
        request = Request("POST", self._oauth.token_url, urlencode(form).encode(), headers)
        answer = exchange(self._service, request, login, self._context, self._timeout)
        document = answer.document if isinstance(answer.document, dict) else {}
        token, seconds = document.get("access_token"), document.get("expires_in", _DEFAULT_SECONDS)
        if answer.status != 200 or not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise self._refused(answer, document.get("error"))
        known = isinstance(seconds, int | float) and abs(seconds) <= _MOST_SECONDS  # JSON has NaN here, and 1e400
        return token, float(seconds) if known else _DEFAULT_SECONDS

    def _refused(self, answer: Answer, code: object) -> OffsetLedgerError:
        keys = self._keys
        if answer.status in (401, 403) or code in _REFUSED:
            return AccessDenied(
                f"the token endpoint {answer.url} refuses this client (HTTP {answer.status}); correct "
                f"{keys.client_id} and {keys.client_secret} of the connection"
            )
        if answer.status in (400, 404, 405):
            why = f", {code}" if isinstance(code, str) and code.isidentifier() else ""
            return ConfigurationError(
                f"the token endpoint {answer.url} refuses the request (HTTP {answer.status}{why}); check "
                f"{keys.token_url} and {keys.scope} of the connection"
            )
        return self._service.unavailable(
            f"the token endpoint {answer.url} gave no token (HTTP {answer.status}); check that it is well"
        )
