"""The age from which each kind of history is pruned."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Self

from offset_ledger.base.units import parse_span
from offset_ledger.errors import ConfigurationError

YOUNGEST = timedelta(days=30)  # the ledger page shows the last 30 days


@dataclass(frozen=True, slots=True)
class Ages:
    """The age of each kind, in the order in which they are pruned; ``deletes`` of delete markers, None to keep them."""

    quarantine: timedelta
    batches: timedelta
    audits: timedelta
    notifications: timedelta
    schemas: timedelta
    daily_reports: timedelta
    deletes: timedelta | None = None

    @classmethod
    def parse(cls, older_than: str, keep: Iterable[str]) -> Self:
        """Parse ages: ``90d`` is for every kind, except those of ``keep``, such as ``audits=365d``; deletes only there.

        Raises:
            ConfigurationError: it is no kind or no age.
        """
        ages = dict.fromkeys(KINDS, parse_span(older_than))
        for name, equals, age in (each.partition("=") for each in keep):
            if not equals or name.strip() not in (*KINDS, "deletes"):
                raise ConfigurationError(
                    f"--keep takes KIND=AGE, such as audits=365d, with one of {', '.join(KINDS)}, deletes, "
                    f"found {name + equals + age!r}"
                )
            ages[name.strip()] = parse_span(age)
        return cls(**ages)

    def check(self) -> None:
        """Raise ConfigurationError for an age at which the ledger page would lose a part of its charts."""
        for kind in KINDS:
            if (age := getattr(self, kind)) < YOUNGEST:
                raise ConfigurationError(
                    f"the age for {kind} is {age.days}d and has to be at least {YOUNGEST.days}d: the ledger page "
                    "shows so much"
                )


KINDS = tuple(each.name for each in fields(Ages) if each.name != "deletes")
