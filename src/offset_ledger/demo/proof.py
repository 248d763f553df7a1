"""The proof of the demo: what stands in the table and in quarantine, against the CSV that it all came from."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from offset_ledger.ledger.database import Cursor, named_sql
from offset_ledger.reliability.publishing.disturbances import Expected, expected
from offset_ledger.reliability.publishing.flights import Event, winning_events


@dataclass(frozen=True, slots=True)
class Claim:
    """One thing that must hold, with what was expected and what was found."""

    text: str
    expected: Any
    found: Any

    @property
    def holds(self) -> bool:
        """Whether it does."""
        return bool(self.expected == self.found)

    def __str__(self) -> str:
        return f"{'ok  ' if self.holds else 'WRONG'} {self.text}: {self.found}" + (
            "" if self.holds else f", expected {self.expected}"
        )


def fingerprint(cursor: Cursor) -> tuple[Any, ...]:
    """Changes with every row that is inserted, rewritten or deleted."""
    cursor.execute(named_sql("demo/fingerprint"))
    return tuple(cursor.one())


def prove(cursor: Cursor, seed: int, limit: int | None) -> list[Claim]:
    """Every claim of the demo about table and quarantine."""
    answer = expected(seed, limit)
    return [*_figures(cursor, limit), *_rows(cursor, limit), *_quarantine(cursor, answer), *_balance(cursor, answer)]


def _figures(cursor: Cursor, limit: int | None) -> list[Claim]:
    cursor.execute(named_sql("demo/flight_totals"))
    rows, cancelled, departures, mean = cursor.one()
    if limit is not None:
        return [Claim("rows", limit, rows)]
    return [
        Claim("rows, one for each flight of the CSV", 336_776, rows),
        Claim("cancelled", 8_255, cancelled),
        Claim("departures", 328_521, departures),
        Claim("mean departure delay in minutes", "12.6391", str(mean)),
    ]


def _rows(cursor: Cursor, limit: int | None) -> list[Claim]:
    cursor.execute(named_sql("demo/flights"))
    found = {tuple(row) for row in cursor.fetchall()}
    wanted = {_row(event) for event in winning_events(limit)}
    return [
        Claim("flights whose newest state is not in the table", 0, len(wanted - found)),
        Claim("rows that are no flight's newest state", 0, len(found - wanted)),
    ]


def _row(event: Event) -> tuple[Any, ...]:
    flight, schedule, actual = event.flight, event.schedule, event.actual
    times = ("dep_time", "dep_delay", "arr_time", "arr_delay", "air_time")
    return (
        *(event.event_id, event.publish_at, str(event.status), flight.carrier, flight.number, flight.tailnum),
        *(flight.origin, flight.dest, schedule.date, event.distance),
        *(getattr(actual, name, None) for name in times),
    )


def _quarantine(cursor: Cursor, answer: Expected) -> list[Claim]:
    cursor.execute(named_sql("demo/quarantined"))
    found = Counter((bytes(row[0]), row[1]) for row in cursor.fetchall())
    wanted = Counter({(value, malformation.path): 1 for value, malformation in answer.refused.items()})
    return [
        Claim("malformed records not in quarantine with the right reason", 0, (wanted - found).total()),
        Claim("records in quarantine that are not malformed", 0, (found - wanted).total()),
    ]


def _balance(cursor: Cursor, answer: Expected) -> list[Claim]:
    cursor.execute(named_sql("demo/balance_totals"))
    inserted, others, quarantined, rest = map(int, cursor.one())
    return [
        Claim("balance sheet: inserted", answer.flights, inserted),
        Claim("balance sheet: updated, superseded and duplicate", answer.superseded, others),
        Claim("balance sheet: quarantined", len(answer.refused), quarantined),
        Claim("balance sheet: deleted and skipped", 0, rest),
    ]
