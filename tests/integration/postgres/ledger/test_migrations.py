"""The migrations make the ledger of catalog.txt, and a ledger of other migrations is left alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from offset_ledger.errors import ConfigurationError
from offset_ledger.outside.connections import Connection
from offset_ledger.postgres.ledger import database
from offset_ledger.postgres.ledger.database import Session, check_migrated, connect, migrate, migrations, transaction

HERE = Path(__file__).parent


@pytest.fixture
def session(postgres: Connection) -> Iterator[Session]:
    with connect(postgres) as opened:
        yield opened


def catalog(session: Session) -> list[str]:
    with transaction(session) as cursor:
        return [line for (line,) in cursor.execute((HERE / "catalog.sql").read_text())]


def test_the_migrations_make_this_ledger(session: Session, tmp_path: Path) -> None:
    """A migration that changes it comes with the listing that this test has written."""
    found, written = catalog(session), tmp_path / "catalog.txt"
    written.write_text("\n".join(found) + "\n")
    assert found == (HERE / "catalog.txt").read_text().splitlines(), f"copy {written} if the change is meant"


def test_a_ledger_without_a_migration_asks_for_it(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    later = {**migrations(), 99: ("0099_later", "CREATE TABLE offset_ledger.later ()")}
    monkeypatch.setattr(database, "migrations", lambda: later)
    with pytest.raises(ConfigurationError, match=r"^the ledger lacks migrations \[99\]; run: offset-ledger migrate$"):
        check_migrated(session)
    assert migrate(session) == ["0099_later"]
    assert migrate(session) == []
    check_migrated(session)


@pytest.mark.parametrize(
    ("applied", "named"),
    [
        ({2: "0002_redrive"}, r"\(0002_redrive;"),
        ({2: "0002_redrive", 3: "0003_dead_letters", 35: "0035_key_places"}, r"\(0002_redrive and 2 more;"),
        ({1: "0001_tables"}, r"\(0001_tables;"),
    ],
    ids=["newer", "newer-by-more", "another"],
)
def test_a_ledger_with_migrations_of_another_version_is_left_alone(
    session: Session, applied: dict[int, str], named: str
) -> None:
    with transaction(session) as cursor:
        for number, name in applied.items():
            cursor.execute("DELETE FROM offset_ledger.migration WHERE number = %s", [number])
            cursor.execute("INSERT INTO offset_ledger.migration (number, name) VALUES (%s, %s)", [number, name])
    before = catalog(session)
    for act in (check_migrated, migrate):
        with pytest.raises(ConfigurationError, match=rf"does not know {named} its newest is 0001_ledger\); upgrade"):
            act(session)
    assert catalog(session) == before
