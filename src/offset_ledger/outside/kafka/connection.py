"""A connection's configuration, checked once and translated for the Kafka clients: kafka-python and librdkafka.

These are values only; what a client calls while it runs, such as for a token, is added by
:mod:`offset_ledger.outside.kafka.python_client` and :mod:`offset_ledger.outside.kafka.tokens`.
"""

import logging
import re
from collections.abc import Mapping
from pathlib import Path

from offset_ledger.errors import ConfigurationError
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.http.oauth import Keys, is_token_url

# A librdkafka client also reports to error_cb what it logs, which makes one error of it.
if (rdkafka_log := logging.getLogger("librdkafka")).level == logging.NOTSET:
    rdkafka_log.setLevel(logging.CRITICAL + 1)

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
USERNAME, PASSWORD = "sasl.username", "sasl.password"
METHOD = "sasl.oauthbearer.method"
OIDC = Keys(
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.scope",
)
EXTENSIONS, TOKEN_CA = "sasl.oauthbearer.extensions", "https.ca.location"
REGION, ROLE, PROFILE = "aws.region", "aws.role.arn", "aws.profile"
SERVICE, PRINCIPAL, KEYTAB = "sasl.kerberos.service.name", "sasl.kerberos.principal", "sasl.kerberos.keytab"
CA, CERTIFICATE, KEY = "ssl.ca.location", "ssl.certificate.location", "ssl.key.location"
KEY_PASSWORD, CHECK_HOST = "ssl.key.password", "ssl.endpoint.identification.algorithm"
TLS = (CA, CERTIFICATE, KEY, KEY_PASSWORD, CHECK_HOST)
FILES = (CA, CERTIFICATE, KEY, TOKEN_CA, KEYTAB)

_REGION_IN_HOST = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com")
_EXTENSION = re.compile(r"[A-Za-z]+=[^\x01,]+")

Names = tuple[str, ...]
_BY_PASSWORD: tuple[Names, Names] = ((USERNAME, PASSWORD), ())
MECHANISMS: Mapping[str, tuple[Names, Names]] = {
    "PLAIN": _BY_PASSWORD,
    "SCRAM-SHA-256": _BY_PASSWORD,
    "SCRAM-SHA-512": _BY_PASSWORD,
    "OAUTHBEARER": ((METHOD, OIDC.token_url, OIDC.client_id, OIDC.client_secret), (OIDC.scope, EXTENSIONS, TOKEN_CA)),
    "AWS_MSK_IAM": ((), (REGION, ROLE, PROFILE)),
    "GSSAPI": ((), (SERVICE, PRINCIPAL, KEYTAB)),
}
"""The keys that each SASL mechanism must have, and those that it may have."""
# Their names in kafka-python, with dots.
_OTHER_NAMES = {
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.plain.username": USERNAME,
    "sasl.plain.password": PASSWORD,
    "ssl.cafile": CA,
    "ssl.certfile": CERTIFICATE,
    "ssl.keyfile": KEY,
    "ssl.password": KEY_PASSWORD,
}
_OF_SECURITY = ("security", "sasl", "ssl", "https", "aws")
_PYTHON_NAMES = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    USERNAME: "sasl_plain_username",
    PASSWORD: "sasl_plain_password",
    SERVICE: "sasl_kerberos_service_name",
    CA: "ssl_cafile",
    CERTIFICATE: "ssl_certfile",
    KEY: "ssl_keyfile",
    KEY_PASSWORD: "ssl_password",
}
_LIBRDKAFKA_NAMES = {
    **{name: name for name in _PYTHON_NAMES if name != SERVICE},
    "sasl.mechanism": "sasl.mechanisms",
}
_NUMBERS = ("request.timeout.ms", "metadata.max.age.ms", "retry.backoff.ms", "reconnect.backoff.ms")
_FETCH_NUMBERS = ("max.partition.fetch.bytes", "fetch.max.bytes")  # of other readers: the audit compares with them
# Both log in to MSK with a token, as its brokers offer it for clients without AWS' own mechanism.
_TOKEN_MECHANISMS = {"AWS_MSK_IAM": "OAUTHBEARER"}


def kafka_python_settings(connection: Connection) -> dict[str, object]:
    """The arguments that kafka-python's clients have in common.

    Raises:
        ConfigurationError: no bootstrap.servers, a security setting that the clients have no name for, a value that
            none of them takes.
    """
    servers, settings = bootstrap_servers(connection), security_of(connection)
    arguments: dict[str, object] = {"bootstrap_servers": servers.split(","), **_common(connection)}
    arguments |= {_PYTHON_NAMES[key]: text for key, text in settings.items() if key in _PYTHON_NAMES}
    if mechanism := settings.get("sasl.mechanism"):
        arguments["sasl_mechanism"] = _TOKEN_MECHANISMS.get(mechanism, mechanism)
    if CHECK_HOST in settings:
        arguments["ssl_check_hostname"] = _checks_host(settings)
    return arguments


def librdkafka_arguments(connection: Connection, *, has_kerberos: bool = False) -> dict[str, object]:
    """Return the same configuration as librdkafka takes it.

    Raises:
        ConfigurationError: as :func:`kafka_python_settings`; also for Kerberos, which its packages are built without.
    """
    servers, settings = bootstrap_servers(connection), security_of(connection)
    mechanism = settings.get("sasl.mechanism")
    if mechanism == "GSSAPI" and not has_kerberos:
        raise _wrong(
            connection,
            "librdkafka, as confluent-kafka is installed, has no Kerberos (sasl.mechanism GSSAPI); use kafka-python",
        )
    named = {_LIBRDKAFKA_NAMES[key]: text for key, text in settings.items() if key in _LIBRDKAFKA_NAMES}
    if mechanism == "GSSAPI":
        named |= {key: settings[key] for key in (SERVICE, PRINCIPAL, KEYTAB) if key in settings}
    if mechanism:
        named["sasl.mechanisms"] = _TOKEN_MECHANISMS.get(mechanism, mechanism)
    common = {key.replace("_", "."): value for key, value in _common(connection).items()}
    check = "https" if _checks_host(settings) else "none"
    return {**common, **named, "bootstrap.servers": servers, CHECK_HOST: check}


def reads_by_librdkafka(connection: Connection) -> bool:
    """Return whether librdkafka can log in so."""
    return security_of(connection).get("sasl.mechanism") != "GSSAPI"


def _checks_host(settings: Mapping[str, str]) -> bool:
    return settings.get(CHECK_HOST, "https").lower() == "https"


def _common(connection: Connection) -> dict[str, object]:
    """The settings that are no matter of security, under kafka-python's names."""
    extra = {key.replace("_", "."): text for key, text in connection.extra.items()}
    for key in (*_NUMBERS, *_FETCH_NUMBERS):
        if key in extra and not extra[key].isdecimal():
            raise _wrong(connection, f"{key} should be a whole number, found {extra[key]!r}")
    numbers: dict[str, object] = {key.replace(".", "_"): int(extra[key]) for key in _NUMBERS if key in extra}
    return {**numbers, **({"client_id": extra["client.id"]} if "client.id" in extra else {})}


def bootstrap_servers(connection: Connection) -> str:
    """Return the connection's ``host:port,host:port``.

    Raises:
        ConfigurationError: it says none.
    """
    servers = connection.extra.get("bootstrap.servers", "").strip()
    if not servers:
        raise _wrong(connection, 'its extra has no bootstrap.servers; write {"bootstrap.servers": "host:9092"}')
    return servers


def security_of(connection: Connection) -> dict[str, str]:
    """The settings of the connection's extra about security, each key under one name, the protocol in capitals.

    Raises:
        ConfigurationError: a key or a value that none of the clients takes, or one that is missing.
    """
    given = {}
    for key, text in connection.extra.items():
        dotted = key.replace("_", ".") if key.startswith(("security_", "sasl_", "ssl_")) else key
        given[_OTHER_NAMES.get(dotted, dotted)] = text
    settings = {key: text for key, text in given.items() if key.replace("_", ".").split(".")[0] in _OF_SECURITY}
    if "security.protocol" in settings:
        settings["security.protocol"] = settings["security.protocol"].upper()
        _require(connection, "security.protocol", settings["security.protocol"], PROTOCOLS)
    _check_keys(connection, settings)
    for key in FILES:
        if key in settings and not Path(settings[key]).is_file():
            raise _wrong(connection, f"{key} should be a file that is there, found {settings[key]!r}")
    return settings


def _check_keys(connection: Connection, settings: Mapping[str, str]) -> None:
    name = settings.get("sasl.mechanism")
    if name is not None:
        _require(connection, "sasl.mechanism", name, tuple(MECHANISMS))
    elif settings.get("security.protocol", "").startswith("SASL"):
        names = ", ".join(MECHANISMS)
        raise _wrong(
            connection, f"security.protocol {settings['security.protocol']} needs sasl.mechanism, one of {names}"
        )
    needs, may = MECHANISMS[name] if name else _BY_PASSWORD
    usable = ("security.protocol", "sasl.mechanism", *TLS, *needs, *may)
    for key in settings:
        if key not in usable:
            with_it = f" with sasl.mechanism {name}" if name else ""
            raise _wrong(connection, f"{key} is not supported{with_it}; use {', '.join(sorted(usable))}")
    if name and (missing := [key for key in needs if not settings.get(key)]):
        raise _wrong(connection, f"sasl.mechanism {name} needs {', '.join(missing)}")
    if name == "OAUTHBEARER":
        _require(connection, METHOD, settings[METHOD], ("oidc",))
        if not is_token_url(settings[OIDC.token_url]):
            raise _wrong(connection, f"{OIDC.token_url} should be the URL of a token endpoint, without a login in it")
        extensions(connection, settings)
    if name == "AWS_MSK_IAM" and settings.get("security.protocol") != "SASL_SSL":
        raise _wrong(connection, "sasl.mechanism AWS_MSK_IAM needs security.protocol SASL_SSL")
    if (CERTIFICATE in settings) != (KEY in settings):
        raise _wrong(connection, f"{CERTIFICATE} and {KEY} belong together; write both")


def extensions(connection: Connection, settings: Mapping[str, str]) -> dict[str, str]:
    """The SASL extensions: names and values of ``name=value,name=value``."""
    given = [each.strip() for each in settings.get(EXTENSIONS, "").split(",") if each.strip()]
    if not all(_EXTENSION.fullmatch(each) for each in given):
        raise _wrong(connection, f"{EXTENSIONS} should be name=value,name=value, names of letters only")
    return dict(each.split("=", 1) for each in given)


def aws_region(connection: Connection, settings: Mapping[str, str]) -> str:
    """The region to sign for: ``aws.region``, else that of the brokers' names.

    Raises:
        ConfigurationError: neither says it.
    """
    named = _REGION_IN_HOST.search(connection.extra.get("bootstrap.servers", ""))
    if region := settings.get(REGION) or (named.group(1) if named else None):
        return region
    raise _wrong(connection, f"the names of its bootstrap.servers have no AWS region; write {REGION}")


def login_of(settings: Mapping[str, str]) -> str:
    """Return the login and its mechanism for messages, without a secret."""
    mechanism = settings.get("sasl.mechanism", "PLAIN")
    who = next((settings[key] for key in (USERNAME, OIDC.client_id, PRINCIPAL, ROLE) if settings.get(key)), None)
    return f"login {who!r} by {mechanism}" if who else f"the login by {mechanism}"


def _require(connection: Connection, key: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        one_of = f"one of {', '.join(allowed)}" if len(allowed) > 1 else allowed[0]
        raise _wrong(connection, f"{key} should be {one_of}, found {value!r}")


def _wrong(connection: Connection, text: str) -> ConfigurationError:
    return ConfigurationError(f"connection {connection.conn_id!r}: {text}")
