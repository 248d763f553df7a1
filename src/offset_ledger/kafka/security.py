"""The login of a Kafka connection: the keys of each SASL mechanism, checked once for all clients."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from offset_ledger.connections import Connection
from offset_ledger.errors import ConfigurationError
from offset_ledger.http.oauth import Keys, is_token_url

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


@dataclass(frozen=True, slots=True)
class Mechanism:
    """The keys that a SASL mechanism must have, and those that it may have."""

    needs: tuple[str, ...] = ()
    may: tuple[str, ...] = ()


_BY_PASSWORD = Mechanism((USERNAME, PASSWORD))
MECHANISMS: Mapping[str, Mechanism] = {
    "PLAIN": _BY_PASSWORD,
    "SCRAM-SHA-256": _BY_PASSWORD,
    "SCRAM-SHA-512": _BY_PASSWORD,
    "OAUTHBEARER": Mechanism(
        (METHOD, OIDC.token_url, OIDC.client_id, OIDC.client_secret), (OIDC.scope, EXTENSIONS, TOKEN_CA)
    ),
    "AWS_MSK_IAM": Mechanism((), (REGION, ROLE, PROFILE)),
    "GSSAPI": Mechanism((), (SERVICE, PRINCIPAL, KEYTAB)),
}
# What kafka-python calls them, with dots.
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


def security_of(connection: Connection) -> dict[str, str]:
    """The settings of the connection's extra about security, each key under one name, the protocol in capitals.

    Raises:
        ConfigurationError: a key or a value that none of the clients takes, or one that is missing.
    """
    given = {}
    for key, text in connection.extra.items():
        dotted = key.replace("_", ".") if key.startswith(("security_", "sasl_", "ssl_")) else key
        given[_OTHER_NAMES.get(dotted, dotted)] = text
    settings = {key: text for key, text in given.items() if is_security(key)}
    if "security.protocol" in settings:
        settings["security.protocol"] = settings["security.protocol"].upper()
        _require(connection, "security.protocol", settings["security.protocol"], PROTOCOLS)
    _check_keys(connection, settings)
    for key in FILES:
        if key in settings and not Path(settings[key]).is_file():
            raise _wrong(connection, f"{key} should be a file that is there, found {settings[key]!r}")
    return settings


def is_security(key: str) -> bool:
    """Return whether the key of a connection's extra is about its login or TLS."""
    return key.replace("_", ".").split(".")[0] in _OF_SECURITY


def _check_keys(connection: Connection, settings: Mapping[str, str]) -> None:
    name = settings.get("sasl.mechanism")
    if name is not None:
        _require(connection, "sasl.mechanism", name, tuple(MECHANISMS))
    elif settings.get("security.protocol", "").startswith("SASL"):
        names = ", ".join(MECHANISMS)
        raise _wrong(
            connection, f"security.protocol {settings['security.protocol']} needs sasl.mechanism, one of {names}"
        )
    known = MECHANISMS[name] if name else _BY_PASSWORD
    usable = ("security.protocol", "sasl.mechanism", *TLS, *known.needs, *known.may)
    for key in settings:
        if key not in usable:
            with_it = f" with sasl.mechanism {name}" if name else ""
            raise _wrong(connection, f"{key} is not supported{with_it}; use {', '.join(sorted(usable))}")
    if name and (missing := [key for key in known.needs if not settings.get(key)]):
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
    """Who logs in and how, for messages: no secret is in it."""
    mechanism = settings.get("sasl.mechanism", "PLAIN")
    who = next((settings[key] for key in (USERNAME, OIDC.client_id, PRINCIPAL, ROLE) if settings.get(key)), None)
    return f"login {who!r} by {mechanism}" if who else f"the login by {mechanism}"


def _require(connection: Connection, key: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        one_of = f"one of {', '.join(allowed)}" if len(allowed) > 1 else allowed[0]
        raise _wrong(connection, f"{key} should be {one_of}, found {value!r}")


def _wrong(connection: Connection, text: str) -> ConfigurationError:
    return ConfigurationError(f"connection {connection.conn_id!r}: {text}")
