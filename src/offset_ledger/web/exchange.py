"""One HTTP request and its answer, bounded in time and size; an answer that is no answer becomes one clear error."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from offset_ledger.errors import ConfigurationError, OffsetLedgerError, error_line, one_line
from offset_ledger.web.tls_failures import causes, tls_failure

if TYPE_CHECKING:
    import httpx

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
class Service:
    """What is asked, for messages, and the errors of one that does not answer and of one that answers too much."""

    name: str
    unavailable: type[OffsetLedgerError]
    too_large: type[OffsetLedgerError]


@dataclass(frozen=True, slots=True)
class Request:
    """What to ask, without the login."""

    method: str
    url: str
    content: bytes | None = None
    headers: Mapping[str, str] | None = None


def exchange(
    service: Service, request: Request, login: Mapping[str, str], context: ssl.SSLContext, timeout: float
) -> Answer:
    """The answer to one request, whatever its status; redirects are not followed.

    Raises:
        ConfigurationError: the certificates do not fit.
        OffsetLedgerError: the service's own errors: nothing answered, or not all of it within ``timeout`` seconds; the
            answer is larger than MAX_ANSWER_BYTES.
    """
    # A loop in a thread of its own: the whole exchange has one deadline, and the caller may have a loop already.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, _exchange(service, request, login, context, timeout)).result()


async def _exchange(
    service: Service, request: Request, login: Mapping[str, str], context: ssl.SSLContext, timeout: float
) -> Answer:
    import httpx  # not before a question is asked: every process that reads from Kafka has this module

    try:
        async with asyncio.timeout(timeout), httpx.AsyncClient(verify=context, timeout=None) as client:
            headers = {"accept-encoding": "identity", **(request.headers or {}), **login}
            asked = client.stream(request.method, request.url, content=request.content, headers=headers)
            async with asked as response:
                body = await _read(service, request.url, response)
                location = response.headers.get("location", "").partition("?")[0]
                return Answer(request.url, response.status_code, _document(body), location)
    except TimeoutError:
        raise service.unavailable(
            f"{request.url} did not answer completely within {timeout:.0f} s; check that the {service.name} is well"
        ) from None
    except (httpx.HTTPError, OSError) as error:
        raise _failed(service, request.url, error) from None
    except httpx.InvalidURL as error:
        raise ConfigurationError(f"{request.url!r} is no URL ({one_line(error)}); correct the connection") from None


async def _read(service: Service, url: str, response: httpx.Response) -> bytes:
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > MAX_ANSWER_BYTES:
            raise service.too_large(
                f"{url} answers with more than {_LIMIT}, which is more than is read here; check that it is the URL of "
                f"a {service.name}"
            )
    return bytes(body)


def _document(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _failed(service: Service, url: str, error: BaseException) -> OffsetLedgerError:
    if known := tls_failure(url, error, "write http:// or the port that has TLS"):
        return known
    *_, first = causes(error)
    reset = url.startswith("https:") and isinstance(first, ConnectionResetError)
    hint = ", and whether it expects a certificate of this client (ssl.certificate.location)" if reset else ""
    return service.unavailable(
        f"{url} did not answer ({error_line(first)}); check that the {service.name} runs, that the connection has its "
        f"URL{hint}"
    )
