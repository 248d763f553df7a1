"""The trigger form of the redrive DAG: what is to be done with which quarantined records."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from offset_ledger.errors import ContradictoryRequest


class QuarantineAction(StrEnum):
    """What a run of the redrive DAG does with the records that it names."""

    REDRIVE = "redrive"
    DISMISS = "dismiss"
    UNDO = "undo_dismissal"


@dataclass(frozen=True, slots=True)
class QuarantineRequest:
    """A filled form without contradictions; moments are still text."""

    action: QuarantineAction
    partition: int | None = None
    offsets: tuple[int, ...] | None = None
    reason: str | None = None
    since: str | None = None
    limit: int | None = None
    why: str = ""


_NOT_FOR = {
    QuarantineAction.REDRIVE: ("partition", "offsets"),
    QuarantineAction.DISMISS: ("limit",),
    QuarantineAction.UNDO: ("limit",),
}


def parse_quarantine_request(form: Mapping[str, Any]) -> QuarantineRequest:
    """The request of a form; a field that is absent, null or blank is not given.

    Raises:
        ContradictoryRequest: in one line, what does not fit and what would.
    """
    given = {name: form[name] for name in form if form[name] is not None and str(form[name]).strip()}
    action = QuarantineAction(given.get("action", QuarantineAction.REDRIVE))
    if extra := [name for name in _NOT_FOR[action] if name in given]:
        raise ContradictoryRequest(f"action {action} takes no {' and no '.join(extra)}; clear it")
    if action is not QuarantineAction.REDRIVE and "why" not in given:
        raise ContradictoryRequest(f"action {action} needs why; it is kept with the decision")
    return QuarantineRequest(
        action,
        given.get("partition"),
        _offsets(given["offsets"]) if "offsets" in given else None,
        given.get("reason"),
        given.get("since"),
        given.get("limit"),
        str(given.get("why", "")).strip(),
    )


def _offsets(text: str) -> tuple[int, ...]:
    parts = [part for part in re.split(r"[\s,]+", text) if part]
    if wrong := next((part for part in parts if not re.fullmatch(r"[0-9]{1,18}", part)), None):
        raise ContradictoryRequest(f"{wrong!r} is no offset; write whole numbers with spaces between, such as 17 18")
    return tuple(map(int, parts))
