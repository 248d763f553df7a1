"""Waiting for a server that is away, with a bound and a visible reason."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from math import inf

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_delay, wait_exponential

from offset_ledger.errors import ConfigurationError

log = logging.getLogger(__name__)


def retry_seconds() -> float:
    """Seconds to wait for a server that is away: ``$OFFSET_LEDGER_PATIENCE``, else 30.

    Raises:
        ConfigurationError: the variable holds no number of seconds.
    """
    given = os.environ.get("OFFSET_LEDGER_PATIENCE", "30")
    try:
        seconds = float(given)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < inf:
        raise ConfigurationError(f"OFFSET_LEDGER_PATIENCE should be a number of seconds, found {given!r}")
    return seconds


def retrying(passing: Callable[[BaseException], bool], whom: str, least: float = 0, most: float = inf) -> Retrying:
    """Try again while ``whom`` is away, for the patience within ``least`` and ``most`` seconds, and say so."""
    bound = min(max(retry_seconds(), least), most)

    def say(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        log.warning("waiting for %s (%s), up to %.0f s", whom, type(error).__name__, bound)

    return Retrying(
        retry=retry_if_exception(passing),
        stop=stop_after_delay(bound),
        wait=wait_exponential(multiplier=0.2, max=5),
        before_sleep=say,
        reraise=True,
    )
