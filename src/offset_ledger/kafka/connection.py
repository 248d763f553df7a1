"""A connection's configuration, translated for the Kafka clients: kafka-python, librdkafka, and Spark's (Java).

These are values only; what a client calls while it runs, such as for a token, is added by
:mod:`offset_ledger.kafka.python_client` and :mod:`offset_ledger.kafka.tokens`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from offset_ledger.connections import Connection
from offset_ledger.errors import ConfigurationError, one_line
from offset_ledger.kafka import security
from offset_ledger.kafka.security import KEYTAB, OIDC, PRINCIPAL, SERVICE, extensions, security_of

_PYTHON_NAMES = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    security.USERNAME: "sasl_plain_username",
    security.PASSWORD: "sasl_plain_password",
    SERVICE: "sasl_kerberos_service_name",
    security.CA: "ssl_cafile",
    security.CERTIFICATE: "ssl_certfile",
    security.KEY: "ssl_keyfile",
    security.KEY_PASSWORD: "ssl_password",
}
_LIBRDKAFKA_NAMES = {
    **{name: name for name in _PYTHON_NAMES if name != SERVICE},
    "sasl.mechanism": "sasl.mechanisms",
}
_NUMBERS = ("request.timeout.ms", "metadata.max.age.ms", "retry.backoff.ms", "reconnect.backoff.ms")
_FETCH_NUMBERS = ("max.partition.fetch.bytes", "fetch.max.bytes")  # of other readers: the audit compares with them
# Spark sets these itself and refuses them as options.
_OF_SPARK = ("group.id", "auto.offset.reset", "enable.auto.commit", "key.deserializer", "value.deserializer")
# Both other clients log in to MSK with a token, as its brokers offer it for clients without AWS' own mechanism.
_TOKEN_MECHANISMS = {"AWS_MSK_IAM": "OAUTHBEARER"}


def kafka_python_settings(connection: Connection) -> dict[str, object]:
    """What kafka-python's clients take in common.

    Raises:
        ConfigurationError: no bootstrap.servers, a security setting that the clients have no name for, a value that
            none of them takes.
    """
    servers, settings = bootstrap_servers(connection), security_of(connection)
    arguments: dict[str, object] = {"bootstrap_servers": servers.split(","), **_common(connection)}
    arguments |= {_PYTHON_NAMES[key]: text for key, text in settings.items() if key in _PYTHON_NAMES}
    if mechanism := settings.get("sasl.mechanism"):
        arguments["sasl_mechanism"] = _TOKEN_MECHANISMS.get(mechanism, mechanism)
    if security.CHECK_HOST in settings:
        arguments["ssl_check_hostname"] = _checks_host(settings)
    return arguments


def librdkafka_arguments(connection: Connection) -> dict[str, object]:
    """The same configuration as librdkafka takes it.

    Raises:
        ConfigurationError: as :func:`kafka_python_settings`; also for Kerberos, which its packages are built without.
    """
    servers, settings = bootstrap_servers(connection), security_of(connection)
    mechanism = settings.get("sasl.mechanism")
    if mechanism == "GSSAPI":
        raise ConfigurationError(
            f"connection {connection.conn_id!r}: librdkafka, as confluent-kafka is installed, has no Kerberos "
            "(sasl.mechanism GSSAPI); publish with kafka-python, and let Spark read"
        )
    named = {_LIBRDKAFKA_NAMES[key]: text for key, text in settings.items() if key in _LIBRDKAFKA_NAMES}
    if mechanism:
        named["sasl.mechanisms"] = _TOKEN_MECHANISMS.get(mechanism, mechanism)
    common = {key.replace("_", "."): value for key, value in _common(connection).items()}
    check = "https" if _checks_host(settings) else "none"
    return {**common, **named, "bootstrap.servers": servers, security.CHECK_HOST: check}


def reads_by_librdkafka(connection: Connection) -> bool:
    """Whether librdkafka can log in so."""
    return security_of(connection).get("sasl.mechanism") != "GSSAPI"


def _checks_host(settings: Mapping[str, str]) -> bool:
    return settings.get(security.CHECK_HOST, "https").lower() == "https"


def _common(connection: Connection) -> dict[str, object]:
    """What is no matter of security, under kafka-python's names."""
    extra = {key.replace("_", "."): text for key, text in connection.extra.items()}
    for key in (*_NUMBERS, *_FETCH_NUMBERS):
        if key in extra and not extra[key].isdecimal():
            raise ConfigurationError(
                f"connection {connection.conn_id!r}: {key} should be a whole number, found {extra[key]!r}"
            )
    numbers: dict[str, object] = {key.replace(".", "_"): int(extra[key]) for key in _NUMBERS if key in extra}
    return {**numbers, **({"client_id": extra["client.id"]} if "client.id" in extra else {})}


def bootstrap_servers(connection: Connection) -> str:
    """``host:port,host:port`` as the connection says.

    Raises:
        ConfigurationError: it says none.
    """
    servers = connection.extra.get("bootstrap.servers", "").strip()
    if not servers:
        raise ConfigurationError(
            f"connection {connection.conn_id!r}: its extra has no bootstrap.servers; "
            'write {"bootstrap.servers": "host:9092"}'
        )
    return servers


def spark_kafka_options(connection: Connection) -> dict[str, str]:
    """The same configuration as Spark's Kafka source takes it: Java client names, each behind ``kafka.``.

    Raises:
        ConfigurationError: as :func:`kafka_python_settings`.
    """
    bootstrap_servers(connection)
    settings = security_of(connection)
    extra = connection.extra
    others = {key: extra[key] for key in extra if key not in _OF_SPARK and not security.is_security(key)}
    java = {**others, **_java_tls(connection, settings), **_java_login(connection, settings)}
    if "security.protocol" in settings:
        java["security.protocol"] = settings["security.protocol"]
    return {f"kafka.{name}": value for name, value in java.items()}


def _java_tls(connection: Connection, settings: Mapping[str, str]) -> dict[str, str]:
    java = {security.CHECK_HOST: settings[security.CHECK_HOST]} if security.CHECK_HOST in settings else {}
    if security.CA in settings:
        java |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": settings[security.CA]}
    if security.CERTIFICATE in settings:
        java |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": Path(settings[security.CERTIFICATE]).read_text(),
            "ssl.keystore.key": _plain_key(connection, settings),
        }
    return java


def _plain_key(connection: Connection, settings: Mapping[str, str]) -> str:
    """The key as PKCS #8 without a password: Java 17 has been seen to refuse PBES2."""
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )

    password = settings.get(security.KEY_PASSWORD)
    try:
        key = load_pem_private_key(Path(settings[security.KEY]).read_bytes(), password.encode() if password else None)
    except (ValueError, TypeError) as error:
        raise ConfigurationError(
            f"connection {connection.conn_id!r}: {security.KEY} should be a key in PEM form, encrypted with "
            f"{security.KEY_PASSWORD} or not at all ({one_line(error, 100)})"
        ) from None
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _java_login(connection: Connection, settings: Mapping[str, str]) -> dict[str, str]:
    mechanism = settings.get("sasl.mechanism")
    if mechanism is None and security.USERNAME not in settings:
        return {}
    named = {"sasl.mechanism": mechanism} if mechanism else {}
    if mechanism == "OAUTHBEARER":
        return {**named, **_java_oauth(connection, settings)}
    if mechanism == "AWS_MSK_IAM":
        return {**named, **_java_msk(settings)}
    if mechanism == "GSSAPI":
        return {**named, **_java_kerberos(settings)}
    module = "scram.ScramLoginModule" if mechanism and mechanism.startswith("SCRAM") else "plain.PlainLoginModule"
    options = {"username": settings[security.USERNAME], "password": settings.get(security.PASSWORD, "")}
    return {**named, "sasl.jaas.config": _jaas(f"org.apache.kafka.common.security.{module}", options)}


def _java_oauth(connection: Connection, settings: Mapping[str, str]) -> dict[str, str]:
    options = {"clientId": settings[OIDC.client_id], "clientSecret": settings[OIDC.client_secret]}
    if OIDC.scope in settings:
        options["scope"] = settings[OIDC.scope]
    options |= {f"extension_{name}": value for name, value in extensions(connection, settings).items()}
    if security.TOKEN_CA in settings:
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": settings[security.TOKEN_CA]}
    package = "org.apache.kafka.common.security.oauthbearer"
    return {
        "sasl.jaas.config": _jaas(f"{package}.OAuthBearerLoginModule", options),
        "sasl.login.callback.handler.class": f"{package}.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": settings[OIDC.token_url],
    }


def _java_msk(settings: Mapping[str, str]) -> dict[str, str]:
    names = {security.PROFILE: "awsProfileName", security.ROLE: "awsRoleArn", security.REGION: "awsStsRegion"}
    options = {java: settings[key] for key, java in names.items() if key in settings}
    return {
        "sasl.jaas.config": _jaas("software.amazon.msk.auth.iam.IAMLoginModule", options),
        "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
    }


def _java_kerberos(settings: Mapping[str, str]) -> dict[str, str]:
    options = {"useTicketCache": "true"}
    if KEYTAB in settings:
        options = {"useKeyTab": "true", "storeKey": "true", "keyTab": settings[KEYTAB]}
    if PRINCIPAL in settings:
        options["principal"] = settings[PRINCIPAL]
    return {
        "sasl.jaas.config": _jaas("com.sun.security.auth.module.Krb5LoginModule", options),
        "sasl.kerberos.service.name": settings.get(SERVICE, "kafka"),
    }


def _jaas(module: str, options: Mapping[str, str]) -> str:
    quoted = {name: text.replace("\\", "\\\\").replace('"', '\\"') for name, text in options.items()}
    return " ".join([module, "required", *(f'{name}="{text}"' for name, text in quoted.items())]) + ";"
