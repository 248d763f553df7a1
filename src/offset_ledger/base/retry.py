"""Retries while a server is unavailable, for a bounded time and with a line that counts."""

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf

from tenacity import RetryCallState, Retrying, stop_after_delay, wait_exponential

from offset_ledger.base.progress import clear, live, rewrites
from offset_ledger.errors import ConfigurationError

log = logging.getLogger(__name__)

VARIABLE = "OFFSET_LEDGER_RETRY_SECONDS"
_LOG_SECONDS = 10.0
_asked_for: ContextVar[float | None] = ContextVar("_asked_for", default=None)


def retry_seconds() -> float:
    """Return the seconds to retry: those of :func:`retrying_for`, else ``$OFFSET_LEDGER_RETRY_SECONDS``, else 30.

    Raises:
        ConfigurationError: the variable holds no number of seconds.
    """
    if (asked_for := _asked_for.get()) is not None:
        return asked_for
    value = os.environ.get(VARIABLE, "30")
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < inf:
        raise ConfigurationError(f"{VARIABLE} should be a number of seconds, found {value!r}")
    return seconds


@contextmanager
def retrying_for(seconds: float) -> Iterator[None]:
    """Set what :func:`retry_seconds` returns inside the block, whatever the environment says."""
    before = _asked_for.set(seconds)
    try:
        yield
    finally:
        _asked_for.reset(before)


def retrying(
    is_transient: Callable[[BaseException], bool], waiting_for: str, min_seconds: float = 0, max_seconds: float = inf
) -> Retrying:
    """Retry on transient errors for :func:`retry_seconds`, kept between the two bounds.

    A terminal shows one line that counts; elsewhere the log gets one when the wait begins, and one every ten seconds.
    """
    timeout = min(max(retry_seconds(), min_seconds), max_seconds)
    logged = 0.0

    def is_to_retry(state: RetryCallState) -> bool:
        error = state.outcome.exception() if state.outcome else None
        retry = error is not None and is_transient(error)
        if state.attempt_number > 1 and not retry:
            clear()
        return retry

    def show_wait(state: RetryCallState) -> None:
        nonlocal logged
        error, waited = state.outcome and state.outcome.exception(), state.seconds_since_start or 0.0
        line = f"waiting for {waiting_for} ({type(error).__name__}), {waited:.0f} of {timeout:.0f} s"
        if rewrites(sys.stderr):
            live(line)
        elif state.attempt_number == 1 or waited - logged >= _LOG_SECONDS:
            logged = waited
            log.warning(line)

    return Retrying(
        retry=is_to_retry,
        stop=stop_after_delay(timeout),
        wait=wait_exponential(multiplier=0.2, max=5),
        before_sleep=show_wait,
        reraise=True,
    )
