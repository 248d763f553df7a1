"""A session with an empty ledger and no tables, in a database that the tests of a module share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from psycopg2 import errors as pg

from offset_ledger.outside.connections import Connection, environment_name
from offset_ledger.postgres.ledger.database import Session, connect, savepoint, transaction
from offset_ledger_kit.sandbox.stack import Stack
from tests.fixtures.servers import execute, new_database
from tests.paths import ROOT

EMPTY_LEDGER = (ROOT / "tests" / "fixtures" / "empty_ledger.sql").read_text()


@pytest.fixture(scope="module")
def database(stack: Stack, template_database: str) -> Iterator[Connection]:
    """One for all tests of a module: to make one takes longer than a test."""
    with new_database(stack, template_database) as made:
        execute(stack.postgres.superuser(made.schema), EMPTY_LEDGER)
        yield made


@pytest.fixture
def session(database: Connection, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """A session with the database as the connection postgres_default; the tables of the test before are gone."""
    monkeypatch.setenv(environment_name(database.conn_id), database.to_json())
    with connect(database) as made:
        with transaction(made) as cursor:
            for schema in ("public", "offset_ledger_rows"):
                cursor.execute(f"DROP SCHEMA {schema} CASCADE; CREATE SCHEMA {schema}")
            cursor.execute("SELECT tests.empty_ledger()")
            cursor.execute("SET search_path TO public")  # the login has a schema of its name: the ledger
        yield made


@pytest.fixture
def few(request: pytest.FixtureRequest) -> bool:
    """Whether a test takes only some of its random orders: in ``make test``."""
    return request.config.getoption("--hypothesis-profile") == "fewer"


@pytest.fixture
def any_case(session: Session) -> None:
    """A collation that takes "a" and "A" for equal, where the server has ICU; of another name than "C" elsewhere."""
    of_icu = "(provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
    with transaction(session) as cursor:
        try:
            with savepoint(cursor):
                cursor.execute(f"CREATE COLLATION public.any_case {of_icu}")
        except pg.FeatureNotSupported:
            cursor.execute('CREATE COLLATION public.any_case FROM "POSIX"')
