"""What a scrape has read from one ledger. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from offset_ledger.page.positions import LedgerPartition

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LedgerReading:
    """By pipeline what the ledger knows, or why it could not be read; a pipeline that has not planned has no row."""

    heads: Mapping[str, Row] = field(default_factory=dict)
    partitions: Mapping[str, Sequence[LedgerPartition]] = field(default_factory=dict)
    waiting: Mapping[str, Row] = field(default_factory=dict)
    offsets: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    findings: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    retired: Collection[str] = ()
    problem: str | None = None
