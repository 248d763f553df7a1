"""Tokens for SASL OAUTHBEARER, for kafka-python and librdkafka: of a token endpoint, or signed for Amazon MSK."""

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

from offset_ledger.base.extras import require
from offset_ledger.errors import AccessDenied, BrokerUnavailable, OffsetLedgerError, one_line
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.http.oauth import OAuth, TokenSource
from offset_ledger.outside.kafka.connection import OIDC, PROFILE, ROLE, TOKEN_CA, aws_region, extensions, security_of

_ENDPOINT_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Token:
    """A token until ``expires_at``, in seconds since 1970."""

    text: str = field(repr=False)
    expires_at: float
    extensions: Mapping[str, str] = field(default_factory=dict)


CurrentToken = Callable[[], Token]
Callback = Callable[[str], tuple[str, float, str, dict[str, str]]]


def current_token(connection: Connection) -> CurrentToken | None:
    """The source of a token for each login, a new one before the last expires; None if the connection takes no token.

    It raises BrokerUnavailable if the token endpoint is down, AccessDenied if it refuses the client.
    """
    settings = security_of(connection)
    if settings.get("sasl.mechanism") == "OAUTHBEARER":
        return _EndpointTokens(connection, settings)
    if settings.get("sasl.mechanism") == "AWS_MSK_IAM":
        return _MskTokens(connection, settings)
    return None


def oauth_callback(connection: Connection, on_error: Callable[[OffsetLedgerError], None]) -> dict[str, Callback]:
    """The ``oauth_cb`` of librdkafka, if the connection takes a token; ``on_error`` is given why there is none later.

    It raises why there is none now: while librdkafka makes a client, an error of the callback is lost.
    """
    current = current_token(connection)
    if current is None:
        return {}
    current()

    def answer(_config: str) -> tuple[str, float, str, dict[str, str]]:
        try:
            token = current()
        except OffsetLedgerError as error:
            on_error(error)
            raise
        return token.text, token.expires_at, "", dict(token.extensions)

    return {"oauth_cb": answer}


class _EndpointTokens:
    """Tokens of a token endpoint."""

    def __init__(self, connection: Connection, settings: Mapping[str, str]) -> None:
        oauth = OAuth(
            settings[OIDC.token_url], settings[OIDC.client_id], settings[OIDC.client_secret], settings.get(OIDC.scope)
        )
        self._source = _source(oauth, settings.get(TOKEN_CA))
        self._extensions = extensions(connection, settings)

    def __call__(self) -> Token:
        return Token(self._source.token(), self._source.expires_at, self._extensions)


@cache
def _source(oauth: OAuth, ca: str | None) -> TokenSource:
    """The source for all clients of a process: they share the token."""
    return TokenSource(oauth, ssl.create_default_context(cafile=ca), _ENDPOINT_SECONDS, OIDC, BrokerUnavailable)


class _MskTokens:
    """Tokens that are signed for Amazon MSK with the AWS identity of this process."""

    def __init__(self, connection: Connection, settings: Mapping[str, str]) -> None:
        require("msk", f"connection {connection.conn_id!r}: sasl.mechanism AWS_MSK_IAM")
        self._conn_id, self._region = connection.conn_id, aws_region(connection, settings)
        self._role, self._profile = settings.get(ROLE), settings.get(PROFILE)

    def __call__(self) -> Token:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider as Signer

        try:
            if self._role:
                text, expires_ms = Signer.generate_auth_token_from_role_arn(self._region, self._role)
            elif self._profile:
                text, expires_ms = Signer.generate_auth_token_from_profile(self._region, self._profile)
            else:
                text, expires_ms = Signer.generate_auth_token(self._region)
        except Exception as error:  # noqa: BLE001 - boto's errors, and the signer's own, which have no class in common
            raise AccessDenied(
                f"connection {self._conn_id!r}: AWS gave no credentials to sign a token with for MSK in {self._region} "
                f"({one_line(error)}); give this process an AWS identity, or set {PROFILE} or {ROLE}"
            ) from None
        return Token(text, expires_ms / 1000)
