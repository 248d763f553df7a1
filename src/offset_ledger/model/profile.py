"""What a batch looked like when it was validated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Profile:
    """What a batch looked like when it was judged.

    ``records`` are all that Kafka gave, ``rows`` those judged, ``nulls`` the NULLs among them in each nullable column;
    ``newest`` is the latest record timestamp.
    """

    records: int
    rows: int
    nulls: Mapping[str, int]
    newest: datetime | None
    min_publish_at: datetime | None = None
    max_publish_at: datetime | None = None
