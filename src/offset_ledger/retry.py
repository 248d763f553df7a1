"""Retrying what fails while a server is away, for a bounded time and with a line in the log."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_delay, wait_exponential

from offset_ledger.errors import ConfigurationError

log = logging.getLogger(__name__)

VARIABLE = "OFFSET_LEDGER_RETRY_SECONDS"
_OLD_VARIABLE = "OFFSET_LEDGER_PATIENCE"
_asked_for: ContextVar[float | None] = ContextVar("_asked_for", default=None)


def retry_seconds() -> float:
    """The seconds to retry while a server is away: as :func:`retrying_for` says, or ``$OFFSET_LEDGER_RETRY_SECONDS``,
    else 30.

    Raises:
        ConfigurationError: the variable holds no number of seconds, or its old name is set.
    """
    if (asked_for := _asked_for.get()) is not None:
        return asked_for
    if _OLD_VARIABLE in os.environ:
        raise ConfigurationError(f"{_OLD_VARIABLE} is now called {VARIABLE}; rename it in the environment")
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
    """Let :func:`retry_seconds` be so many in the block, whatever the environment of this process says."""
    before = _asked_for.set(seconds)
    try:
        yield
    finally:
        _asked_for.reset(before)


def retrying(
    is_transient: Callable[[BaseException], bool], waiting_for: str, min_seconds: float = 0, max_seconds: float = inf
) -> Retrying:
    """Retry on transient errors for :func:`retry_seconds`, kept between the two bounds; each retry is logged."""
    timeout = min(max(retry_seconds(), min_seconds), max_seconds)

    def log_retry(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        log.warning("waiting for %s (%s), up to %.0f s", waiting_for, type(error).__name__, timeout)

    return Retrying(
        retry=retry_if_exception(is_transient),
        stop=stop_after_delay(timeout),
        wait=wait_exponential(multiplier=0.2, max=5),
        before_sleep=log_retry,
        reraise=True,
    )
