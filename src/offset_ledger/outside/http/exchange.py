"""One HTTP request and its answer, bounded in time and size; a malformed or missing response is one clear error."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from offset_ledger.errors import ConfigurationError, OffsetLedgerError, error_line, one_line

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


@dataclass(frozen=True, slots=True)
class Service:
    """A service: its name in messages, and the errors for no answer and for one that is too large."""

    name: str
    unavailable: type[OffsetLedgerError]
    too_large: type[OffsetLedgerError]


@dataclass(frozen=True, slots=True)
class Request:
    """A request without the login."""

    method: str
    url: str
    content: bytes | None = None
    headers: Mapping[str, str] | None = None


def exchange(
    service: Service, request: Request, login: Mapping[str, str], context: ssl.SSLContext, timeout: float
) -> Answer:
    """The answer to one request, over a connection of its own; as :meth:`HttpClient.exchange`."""
    with HttpClient(service, context, timeout) as kept:
        return kept.exchange(request, login)


class HttpClient:
    """Requests to one service, over connections that are kept for the length of the block.

    In an event loop in a thread of its own: a whole exchange has one deadline, and the caller may have a loop already.
    """

    def __init__(self, service: Service, context: ssl.SSLContext, timeout: float) -> None:
        self._service, self._context, self._timeout = service, context, timeout
        self._client: httpx.AsyncClient | None = None

    def __enter__(self) -> Self:
        self._thread, self._runner = ThreadPoolExecutor(1), asyncio.Runner()
        return self

    def __exit__(self, *_: object) -> None:
        with self._thread:
            if self._client:
                self._run(self._client.aclose())
            self._thread.submit(self._runner.close).result()

    def exchange(self, request: Request, login: Mapping[str, str]) -> Answer:
        """The answer to one request, whatever its status; redirects are not followed.

        Raises:
            ConfigurationError: the certificates do not fit.
            OffsetLedgerError: the service's own errors: nothing answered, or not all of it within ``timeout`` seconds;
                the answer is larger than MAX_ANSWER_BYTES.
        """
        answer: Answer = self._run(self._exchange(request, login))
        return answer

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._thread.submit(self._runner.run, work).result()

    async def _exchange(self, request: Request, login: Mapping[str, str]) -> Answer:
        import httpx  # not before a question is asked: every process that reads from Kafka has this module

        self._client = self._client or httpx.AsyncClient(verify=self._context, timeout=None)
        try:
            async with asyncio.timeout(self._timeout):
                headers = {"accept-encoding": "identity", **(request.headers or {}), **login}
                asked = self._client.stream(request.method, request.url, content=request.content, headers=headers)
                async with asked as response:
                    document = await _read(self._service, request.url, response)
                    location = response.headers.get("location", "").partition("?")[0]
                    return Answer(request.url, response.status_code, document, location)
        except TimeoutError:
            raise self._service.unavailable(
                f"{request.url} did not answer completely within {self._timeout:.0f} s; check that the "
                f"{self._service.name} is well"
            ) from None
        except (httpx.HTTPError, OSError) as error:
            if known := tls_failure(request.url, error, "write http:// or the port that has TLS"):
                raise known from None
            *_, first = causes(error)
            reset = request.url.startswith("https:") and isinstance(first, ConnectionResetError)
            hint = ", and whether it expects a certificate of this client (ssl.certificate.location)" if reset else ""
            raise self._service.unavailable(
                f"{request.url} did not answer ({error_line(first)}); check that the {self._service.name} runs, that "
                f"the connection has its URL{hint}"
            ) from None
        except httpx.InvalidURL as error:
            raise ConfigurationError(f"{request.url!r} is no URL ({one_line(error)}); correct the connection") from None


async def _read(service: Service, url: str, response: httpx.Response) -> Any:
    """The document of the answer; None where it is no JSON."""
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > MAX_ANSWER_BYTES:
            raise service.too_large(
                f"{url} answers with more than {_LIMIT}, which is more than is read here; check that it is the URL of "
                f"a {service.name}"
            )
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


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
    """Return the error and its causes, without the steps of a handshake that wait for the other side."""
    while error is not None:
        if not isinstance(error, ssl.SSLWantReadError | ssl.SSLWantWriteError):
            yield error
        error = error.__cause__ or error.__context__
