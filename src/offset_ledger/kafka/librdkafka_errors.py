"""librdkafka's errors: which are final, and which of this package's errors they become."""

from __future__ import annotations

import re

from confluent_kafka import KafkaError

from offset_ledger.connections import Connection
from offset_ledger.errors import AccessDenied, OffsetLedgerError, one_line
from offset_ledger.kafka.connection import bootstrap_servers
from offset_ledger.kafka.security import login_of, security_of
from offset_ledger.web.tls_failures import untrusted

_VERIFY = re.compile(r"certificate verify failed: ([^:()]+)")
_OF_THE_GROUP = KafkaError.GROUP_AUTHORIZATION_FAILED


def refused(connection: Connection, name: str, text: str) -> OffsetLedgerError | None:
    """The error for what librdkafka says of a login or a certificate that was refused; None if it may yet succeed."""
    where = f"Kafka at {bootstrap_servers(connection)}"
    if name == "_SSL" and (reason := _VERIFY.search(text)):
        return untrusted(where, reason.group(1))
    if name == "_AUTHENTICATION" and "SASL authentication error" in text:
        login = login_of(security_of(connection))
        return AccessDenied(f"{where} refuses {login} ({one_line(text, 200)}); correct the login of the connection")
    return None


def final(servers: str, error: KafkaError) -> OffsetLedgerError | None:
    """The error for an answer of a broker that stays the same; None for what may pass, or is of librdkafka itself."""
    if error.code() < 0 or error.code() == _OF_THE_GROUP:
        return None
    from kafka import errors as kafka_errors  # takes 0.3 s of CPU, and a reader without trouble needs none of it

    from offset_ledger.kafka.errors import unavailable

    kind = kafka_errors.for_code(error.code())
    return None if kind.retriable else unavailable(servers, kind(error.str()))
