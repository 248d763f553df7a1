"""One HTTP request and its answer, bounded in time and size; an answer that is no answer becomes one clear error."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx

from offset_ledger.errors import (
    ConfigurationError,
    OffsetLedgerError,
    RegistryUnavailable,
    UnusableSchema,
    error_line,
    one_line,
)

MAX_ANSWER_BYTES = 4 * 1024 * 1024
_LIMIT = f"{MAX_ANSWER_BYTES // 1024 // 1024} MiB"


@dataclass(frozen=True, slots=True)
class Answer:
    """Status and body; ``document`` is None where the body is no JSON."""

    url: str
    status: int
    document: Any
    location: str = ""

    @property
    def error_code(self) -> int | None:
        """The code of the registry's own error document."""
        code = self.document.get("error_code") if isinstance(self.document, dict) else None
        return code if isinstance(code, int) else None

    @property
    def message(self) -> str:
        """What the registry says about it."""
        text = self.document.get("message") if isinstance(self.document, dict) else None
        return one_line(text, 600) if isinstance(text, str) else ""


@dataclass(frozen=True, slots=True)
class Request:
    """What to ask, without the login."""

    method: str
    url: str
    content: bytes | None = None
    headers: Mapping[str, str] | None = None


def exchange(request: Request, login: Mapping[str, str], context: ssl.SSLContext, timeout: float) -> Answer:
    """The answer to one request, whatever its status; redirects are not followed.

    Raises:
        RegistryUnavailable: nothing answered, or not all of it within ``timeout`` seconds.
        ConfigurationError: the certificates do not fit.
        UnusableSchema: the answer is larger than MAX_ANSWER_BYTES.
    """
    # A loop in a thread of its own: the whole exchange has one deadline, and the caller may have a loop already.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, _exchange(request, login, context, timeout)).result()


async def _exchange(request: Request, login: Mapping[str, str], context: ssl.SSLContext, timeout: float) -> Answer:
    try:
        async with asyncio.timeout(timeout), httpx.AsyncClient(verify=context, timeout=None) as client:
            headers = {"accept-encoding": "identity", **(request.headers or {}), **login}
            asked = client.stream(request.method, request.url, content=request.content, headers=headers)
            async with asked as response:
                body = await _read(request.url, response)
                location = response.headers.get("location", "").partition("?")[0]
                return Answer(request.url, response.status_code, _document(body), location)
    except TimeoutError:
        raise RegistryUnavailable(
            f"{request.url} did not answer completely within {timeout:.0f} s; check that the schema registry is well"
        ) from None
    except (httpx.HTTPError, OSError) as error:
        raise _failed(request.url, error) from None
    except httpx.InvalidURL as error:
        raise ConfigurationError(f"{request.url!r} is no URL ({one_line(error)}); correct the connection") from None


async def _read(url: str, response: httpx.Response) -> bytes:
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > MAX_ANSWER_BYTES:
            raise UnusableSchema(
                f"{url} answers with more than {_LIMIT}, which is more than a schema may have here; check that it is "
                "the URL of a schema registry, or split the schema"
            )
    return bytes(body)


def _document(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _failed(url: str, error: BaseException) -> OffsetLedgerError:
    causes = tuple(_causes(error))
    tls = next((each for each in causes if isinstance(each, ssl.SSLError)), None)
    if isinstance(tls, ssl.SSLCertVerificationError):
        return ConfigurationError(
            f"{url} has a certificate that is not trusted ({tls.verify_message}); set ssl.ca.location of the "
            "connection to the authority that signed it"
        )
    if tls and "ALERT" in (tls.reason or ""):
        return ConfigurationError(
            f"{url} refuses this client's certificate, or expects one ({tls.reason}); set ssl.certificate.location and "
            "ssl.key.location of the connection to one that it accepts"
        )
    if tls and tls.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
        return ConfigurationError(f"{url} does not speak TLS ({tls.reason}); write http:// or the port that has TLS")
    reset = url.startswith("https:") and isinstance(causes[-1], ConnectionResetError)
    hint = ", and whether it expects a certificate of this client (ssl.certificate.location)" if reset else ""
    return RegistryUnavailable(
        f"{url} did not answer ({error_line(causes[-1])}); check that the schema registry runs, that the connection "
        f"has its URL{hint}"
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        if not isinstance(error, ssl.SSLWantReadError | ssl.SSLWantWriteError):  # a step of a handshake, no failure
            yield error
        error = error.__cause__ or error.__context__
