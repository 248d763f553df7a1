"""Logins whose rights do not suffice, as Kafka's client tells them."""

from __future__ import annotations

from kafka import errors as kafka_errors

from offset_ledger.errors import AccessDenied

_DENIED = (
    kafka_errors.AuthorizationError,
    kafka_errors.SaslAuthenticationFailedError,
    kafka_errors.UnsupportedSaslMechanismError,
)


def access_denied(servers: str | None, error: BaseException) -> AccessDenied | None:
    """The error to tell, if that is what ``error`` says; a wrong password is not, but a timeout to kafka-python."""
    if not isinstance(error, _DENIED):
        return None
    name = type(error).__name__
    detail = " ".join(str(error).split()).removeprefix(f"{name}: ")[:160]
    return AccessDenied(
        f"Kafka at {servers} does not let this login do it ({name}: {detail}); correct the login of the connection "
        "or give it the rights of docs/production.md"
    )
