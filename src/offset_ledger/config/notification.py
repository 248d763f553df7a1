"""Notifications as values: what people are notified of, and by which of Airflow's notifiers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Cause(StrEnum):
    """What a notification is about."""

    BATCH_REJECTED = "batch_rejected"
    APPROVAL_NEEDED = "approval_needed"
    FRESHNESS_MISSED = "freshness_missed"
    AUDIT_ERROR = "audit_error"
    LOSS_AHEAD = "loss_ahead"
    REGISTRY_AWAY = "registry_away"
    RUN_FAILED = "run_failed"


ALL_CAUSES = tuple(Cause)


@dataclass(frozen=True, slots=True)
class Notifier:
    """A notifier of Airflow: the path of its class, its arguments, and ``label``, by which the ledger knows it."""

    path: str
    label: str
    arguments: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Notify:
    """An entry of ``notify``: a notifier and its causes."""

    notifier: Notifier
    causes: tuple[Cause, ...] = ALL_CAUSES
    loss_ahead_hours: int = 24
