"""kafka-python's errors: which are transient, and which of this package's errors they become."""

from collections.abc import Iterator
from contextlib import contextmanager

from kafka import errors as kafka_errors

from offset_ledger.errors import (
    AccessDenied,
    BrokerUnavailable,
    ConfigurationError,
    OffsetLedgerError,
    UnknownHost,
    error_line,
)

_DENIED = (
    kafka_errors.AuthorizationError,
    kafka_errors.SaslAuthenticationFailedError,
    kafka_errors.UnsupportedSaslMechanismError,
)


def is_transient(error: BaseException) -> bool:
    """Return whether asking again may help; kafka-python itself retries only NotLeaderForPartition.

    A token endpoint that is down is BrokerUnavailable already.
    """
    retriable = isinstance(error, kafka_errors.KafkaError) and bool(error.retriable)
    return retriable or (isinstance(error, BrokerUnavailable) and not isinstance(error, UnknownHost))


def unavailable(servers: str, error: BaseException) -> OffsetLedgerError:
    """The error for a cluster that gave no answer, or that does not let this login do it."""
    if isinstance(error, _DENIED):
        return AccessDenied(
            f"Kafka at {servers} does not let this login do it ({error_line(error)}); correct the login of the "
            "connection or give it the rights of docs/production.md"
        )
    if isinstance(error, kafka_errors.UnsupportedVersionError):
        return does_not_answer(servers, f"what is asked ({error_line(error)})")
    return BrokerUnavailable(
        f"Kafka at {servers} did not answer ({error_line(error)}); check that the brokers run and that "
        "bootstrap.servers and login of the connection are right"
    )


def does_not_answer(servers: str, what: str) -> ConfigurationError:
    """Return the error for brokers that speak Kafka's protocol but lack a part of it that is needed here."""
    return ConfigurationError(
        f"Kafka at {servers} does not answer {what}; brokers are needed that answer as those of Kafka 3.6 and newer do"
    )


@contextmanager
def leader_changes_are_transient(topic: str) -> Iterator[None]:
    """Raise a retriable error where a leader has left the cluster since the topic was described."""
    try:
        yield
    except kafka_errors.UnknownBrokerIdError as error:
        raise kafka_errors.LeaderNotAvailableError(f"{topic}: a leader went away meanwhile") from error
