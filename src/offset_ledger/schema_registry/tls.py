"""The certificates of a connection as a TLS context."""

from __future__ import annotations

import ssl
from pathlib import Path

import httpx

from offset_ledger.errors import ConfigurationError, one_line
from offset_ledger.schema_registry.connection import CA, CERTIFICATE, KEY, KEY_PASSWORD, Settings


def tls_context(settings: Settings) -> ssl.SSLContext:
    """A context that checks certificates: against ``ssl.ca.location``, else against the authorities that httpx knows.

    Raises:
        ConfigurationError: a file is missing, or is not what its setting says.
    """
    tls = settings.tls
    _check_files(settings)
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


def _check_files(settings: Settings) -> None:
    tls = settings.tls
    for name, path in ((CA, tls.ca), (CERTIFICATE, tls.certificate), (KEY, tls.key)):
        if path and not Path(path).is_file():
            raise _wrong(settings, f"{name} should be a file that is there, found {path!r}")


def _wrong(settings: Settings, text: str) -> ConfigurationError:
    return ConfigurationError(f"connection {settings.conn_id!r}: {text}")
