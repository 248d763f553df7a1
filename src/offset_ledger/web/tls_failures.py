"""What a TLS handshake that failed means for a connection."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

from offset_ledger.errors import ConfigurationError


def tls_failure(where: str, error: BaseException, without_tls: str) -> ConfigurationError | None:
    """The error if certificates do not fit or ``where`` has no TLS (``without_tls`` says what to do); else None."""
    tls = next((each for each in causes(error) if isinstance(each, ssl.SSLError)), None)
    if isinstance(tls, ssl.SSLCertVerificationError):
        return untrusted(where, tls.verify_message)
    if tls and "ALERT" in (tls.reason or ""):
        return ConfigurationError(
            f"{where} refuses this client's certificate, or expects one ({tls.reason}); set ssl.certificate.location "
            "and ssl.key.location of the connection to one that it accepts"
        )
    if tls and tls.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
        return ConfigurationError(f"{where} does not speak TLS ({tls.reason}); {without_tls}")
    return None


def untrusted(where: str, reason: str) -> ConfigurationError:
    """The error for the certificate of a server, by OpenSSL's reason: another name, or an unknown authority."""
    if "mismatch" in reason:
        return ConfigurationError(
            f"{where} has a certificate for another name ({reason}); write the name that is in its certificate into "
            "the connection"
        )
    return ConfigurationError(
        f"{where} has a certificate that is not trusted ({reason}); set ssl.ca.location of the connection to the "
        "authority that signed it"
    )


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what it came from, without the steps of a handshake that wait for the other side."""
    while error is not None:
        if not isinstance(error, ssl.SSLWantReadError | ssl.SSLWantWriteError):
            yield error
        error = error.__cause__ or error.__context__
