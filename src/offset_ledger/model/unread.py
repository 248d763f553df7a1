"""The fields of a batch's records that nothing reads, with how many records had each."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

MAX_FIELDS = 100
MAX_NAME = 200
"""Characters of a path that are kept."""


@dataclass(frozen=True, slots=True)
class UnreadCounts:
    """Counts of unread fields in ``sampled`` of ``records`` rows, the most frequent first; ``more``: others exist."""

    records: int = 0
    sampled: int = 0
    fields: Mapping[str, int] = field(default_factory=dict)
    more: bool = False

    @classmethod
    def of(cls, records: int, sampled: int, fields: Mapping[str, int], more: bool = False) -> Self:
        """The counts, limited to the most frequent fields."""
        kept = sorted(fields.items(), key=lambda item: (-item[1], item[0]))
        return cls(records, sampled, dict(kept[:MAX_FIELDS]), more or len(kept) > MAX_FIELDS)

    def to_json(self) -> dict[str, Any]:
        """The form that :meth:`from_json` reads."""
        return {**asdict(self), "fields": [list(each) for each in self.fields.items()]}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Self:
        """Read the ledger's form, in pairs because jsonb does not keep the order of members."""
        return cls(kept["records"], kept["sampled"], dict(kept["fields"]), kept["more"])


def together(parts: Iterable[UnreadCounts]) -> UnreadCounts | None:
    """Return the fields of all slices of a batch together; None if none of them counted."""
    counted = list(parts)
    if not counted:
        return None
    fields: Counter[str] = sum((Counter(dict(each.fields)) for each in counted), Counter())
    records, sampled = sum(each.records for each in counted), sum(each.sampled for each in counted)
    return UnreadCounts.of(records, sampled, fields, any(each.more for each in counted))
