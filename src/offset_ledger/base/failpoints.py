"""Named points at which a test can kill, pause or fail the process: off unless the environment names them.

``OFFSET_LEDGER_FAILPOINTS`` is a list such as ``after_claim=kill;slice_copied=stop``. The actions: ``kill`` (SIGKILL to
this process), ``stop`` (SIGSTOP, until a SIGCONT), ``sleep:SECONDS``, ``fail`` (a TransientError).
``@FILE`` instead of the list reads it from a file at each place, so that it can change while processes run. With
``OFFSET_LEDGER_FAILPOINTS_ONCE`` naming a folder, each place acts once for all processes that share the folder.
"""

import os
import signal
import threading
import time
from enum import StrEnum
from pathlib import Path

from offset_ledger.errors import ConfigurationError, TransientError

VARIABLE = "OFFSET_LEDGER_FAILPOINTS"
ONCE = "OFFSET_LEDGER_FAILPOINTS_ONCE"


class Failpoint(StrEnum):
    """Every step boundary, in the order a batch reaches them."""

    AFTER_PLAN = "after_plan"
    AFTER_PLAN_AHEAD = "after_plan_ahead"
    AFTER_CLAIM = "after_claim"
    SLICE_COPIED = "slice_copied"
    SLICE_COMMITTED = "slice_committed"
    AFTER_BOUNDARY = "after_boundary"
    AFTER_STAGE = "after_stage"
    AFTER_VALIDATE = "after_validate"
    BEFORE_MERGE = "before_merge"
    AFTER_MERGE = "after_merge"
    AFTER_COMMIT = "after_commit"
    BEFORE_REPORT = "before_report"
    DEAD_LETTERS_SENT = "dead_letters_sent"
    DEAD_LETTERS_COMMITTED = "dead_letters_committed"
    NOTIFICATION_SENT = "notification_sent"


NOT_ALWAYS = (
    Failpoint.AFTER_PLAN_AHEAD,
    Failpoint.AFTER_BOUNDARY,
    Failpoint.DEAD_LETTERS_SENT,
    Failpoint.DEAD_LETTERS_COMMITTED,
    Failpoint.NOTIFICATION_SENT,
)
"""The places that a batch reaches only if it is ahead of another, meets a schema that needs other columns, has dead
letters, or notifies.
"""


def reach(place: Failpoint) -> None:
    """Act if the environment names this place; otherwise nothing."""
    wanted = os.environ.get(VARIABLE)
    if wanted and wanted.startswith("@"):
        file = Path(wanted[1:])
        wanted = file.read_text().strip() if file.exists() else None
    if wanted:
        try:
            actions = {Failpoint(name): action for name, action in (each.split("=", 1) for each in wanted.split(";"))}
        except ValueError as error:
            names = ", ".join(Failpoint)
            raise ConfigurationError(f"{VARIABLE}: {error}; expected PLACE=ACTION;..., places: {names}") from None
        if place in actions:
            if folder := os.environ.get(ONCE):
                try:
                    Path(folder, place).touch(exist_ok=False)
                except FileExistsError:
                    return
            _act(place, actions[place])


def _act(place: Failpoint, action: str) -> None:
    kind, _, argument = action.partition(":")
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif kind == "stop":
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # this thread is to stop here, not a little later
    elif kind == "sleep":
        time.sleep(float(argument))
    elif kind == "fail":
        raise TransientError(f"failpoint {place}")
    else:
        raise ConfigurationError(f"{VARIABLE}: {action!r} is no action; use kill, stop, sleep:SECONDS or fail")
