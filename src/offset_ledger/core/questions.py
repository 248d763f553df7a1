"""Questions that only a person may answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class QuestionKind(StrEnum):
    """What a question is about."""

    LOST_RANGE = "lost_range"
    RECREATED_TOPIC = "recreated_topic"
    TRUNCATED_LOG = "truncated_log"
    REJECTED_BATCH = "rejected_batch"


class Answer(StrEnum):
    """What a person may answer; ``reject`` leaves everything as it is."""

    APPROVE = "approve"
    ABANDON = "abandon"
    REJECT = "reject"


@dataclass(frozen=True, slots=True)
class Question:
    """A question that only a person may answer, with the exact numbers in ``details``."""

    pipeline: str
    kind: QuestionKind
    topic_id: str
    text: str
    details: Mapping[str, Any]
    batch_id: int | None = None
