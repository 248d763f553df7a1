"""A pooler between this package and Postgres: one that leaves a session its backend works, any other is named."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from offset_ledger.errors import AccessDenied, ConfigurationError, Fenced
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.outside.connections import Connection, environment_name
from offset_ledger.outside.producer.publisher import publish
from offset_ledger.outside.producer.record import Record
from offset_ledger.postgres.ledger import sessions
from offset_ledger.postgres.ledger.database import connect, rows
from offset_ledger.steps.stage.claim import claim
from offset_ledger.steps.stage.slices import SliceTask
from offset_ledger_kit.cli.main import main
from offset_ledger_kit.publishing.topics import create_topic
from tests.fixtures.poolers import pgbouncer, pgpool
from tests.fixtures.raw import Raw, arrow, commit_raw, write_slices
from tests.fixtures.servers import Servers, configure, execute
from tests.fixtures.staged import ME, a_pipeline, planned
from tests.fixtures.suites import in_set, write_suite

pytestmark = [pytest.mark.full, pytest.mark.minutes(1)]

FILE = """
pipeline: orders
source: {{connection: kafka_default, topic: {topic}}}
record: {{key: {{id: text}}, publish_at: kafka_timestamp, columns: {{state: text, code: text}}}}
target: {{connection: postgres_default, table: public.orders, bookkeeping: beside, on_conflict: quarantine}}
quality: {{suite: orders, max_quarantined_share: 1.0}}
"""
VALUE = b'{"at": "2026-01-01T12:00:00Z", "state": "new", "note": null}'


@pytest.fixture(autouse=True)
def nothing_known_of_poolers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this process has found out about poolers of other tests, whose ports may come again."""
    for known in ("_without_options", "_unshared"):
        monkeypatch.setattr(sessions, known, set())


@pytest.fixture
def direct(servers: Servers) -> Connection:
    """A database with hostile settings, as each test has, but for one that PgBouncer cannot be asked to change."""
    configure(servers.postgres, standard_conforming_strings="on")
    return servers.postgres


@pytest.fixture
def through(direct: Connection, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Connection]]:
    """Lets postgres_default lead through a pooler, and returns that connection."""
    with ExitStack() as opened:

        def start(kind: str, **settings: str) -> Connection:
            way = pgpool(direct) if kind == "pgpool" else pgbouncer(direct, kind, settings)
            pooled = opened.enter_context(way)
            monkeypatch.setenv(environment_name("postgres_default"), pooled.to_json())
            return pooled

        yield start


@pytest.fixture
def orders(servers: Servers, topic_name: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The file of a pipeline; of its three records one has a bad state, and one the code of the first."""
    topic = topic_name()
    create_topic(dict(servers.kafka.extra), topic, 1, 1)
    values = [("a", "new", "1"), ("b", "lost", "2"), ("c", "paid", "1")]
    records = [
        Record(None, json.dumps({"id": key, "state": state, "code": code}).encode()) for key, state, code in values
    ]
    publish(records, dict(servers.kafka.extra), topic)
    file = tmp_path / "dags" / "pipelines" / "orders.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(FILE.format(topic=topic))
    write_suite(tmp_path, in_set("quarantine", "state", "new", "paid"))
    monkeypatch.chdir(tmp_path)
    return str(file)


# -- a pooler that shares backends ------------------------------------------------------------------------------

SHARING: list[tuple[str, dict[str, str]]] = [
    ("transaction", {}),
    ("transaction", {"server_round_robin": "1", "ignore_startup_parameters": "options"}),
    ("statement", {}),
]
NAMED = r"the pooler at 127\.0\.0\.1:{port} pools transactions or statements, not sessions: .* set pool_mode = session"


@pytest.mark.parametrize(("mode", "settings"), SHARING, ids=["transaction", "round robin", "statement"])
def test_a_pooler_that_shares_backends_is_recognised_by_the_first_session(
    through: Callable[..., Connection], mode: str, settings: dict[str, str]
) -> None:
    pooled = through(mode, **settings)
    for idle in range(4):
        warm_up(pooled, idle)
        with pytest.raises(ConfigurationError, match=NAMED.format(port=pooled.port)), connect(pooled):
            pass


def warm_up(pooled: Connection, backends: int) -> None:
    """Let the pooler have so many backends, which are idle then."""
    with ExitStack() as opened:
        given = {"host": pooled.host, "port": pooled.port, "user": pooled.login, "password": pooled.password}
        for _ in range(backends):
            session = psycopg2.connect(dbname=pooled.schema, **given)
            opened.callback(session.close)
            session.autocommit = True
            session.cursor().execute("SELECT pg_sleep(0.1)")


def test_what_is_refused_has_left_no_setting_to_the_clients_that_share_the_backend(
    through: Callable[..., Connection],
) -> None:
    pooled = through("transaction")
    with pytest.raises(ConfigurationError), connect(pooled):
        pass
    given = {"host": pooled.host, "port": pooled.port, "user": pooled.login, "password": pooled.password}
    session = psycopg2.connect(dbname=pooled.schema, **given)
    with session, session.cursor() as cursor:
        shown = "idle_in_transaction_session_timeout", "bytea_output", "extra_float_digits"
        cursor.execute(f"SELECT {', '.join(f'current_setting({name!r})' for name in shown)}")
        assert cursor.fetchall() == [("0", "escape", "-15")]
    session.close()


VERBS = """
migrate
ingest FILE
replay FILE --partition 0 --from-offset 0 --until-offset 1 --why why
remerge FILE --why why
status FILE
verify FILE
verify FILE --against-topic
batch list FILE
batch show 1
batch approve 1 --why why
batch abandon 1 --why why
quarantine list FILE
quarantine retry FILE
quarantine dismiss FILE --partition 0 --offset 1 --why why
quarantine deliver FILE
accept topic FILE --why why
accept table FILE --why why
accept loss FILE --why why
kafka audit FILE
prune FILE --older-than 90d
"""


SAY_WHAT_THEY_CANNOT_READ = """
check FILE
check FILE --schema
status
report
serve metrics --once
"""


def test_every_verb_names_the_pooler_and_plans_nothing(
    direct: Connection,
    through: Callable[..., Connection],
    orders: str,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    pooled = through("transaction")
    named, said = f"the pooler at 127.0.0.1:{pooled.port} pools transactions or statements, not sessions", {}
    for line in VERBS.strip().splitlines():
        code = main(line.replace("FILE", orders).split())
        said[line] = (code, capsys.readouterr().err.splitlines()[-1:])
    line = f"offset-ledger: ConfigurationError: {named}"
    assert {verb: each for verb, each in said.items() if each[0] != 1 or not "".join(each[1]).startswith(line)} == {}
    for line in SAY_WHAT_THEY_CANNOT_READ.strip().splitlines():
        caplog.clear()
        main(line.replace("FILE", orders).split())
        assert named in f"{capsys.readouterr().out}{caplog.text}"
    assert main(["check", orders, "--system", "--json"]) == 1
    found = {each["subject"]: each for each in json.loads(capsys.readouterr().out)}["Postgres postgres_default"]
    assert (found["level"], named in str(found)) == ("problem", True)
    with connect(direct) as session:
        assert rows(session, "SELECT * FROM offset_ledger.batch") == []


def test_a_session_that_took_its_backend_for_its_own_commits_nothing_once_it_is_shared(
    direct: Connection, through: Callable[..., Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where all other clients came after the proof."""
    pooled = through("transaction")
    monkeypatch.setattr(sessions, "_ROUNDS", 0)
    named = NAMED.format(port=pooled.port)
    with connect(pooled) as first, connect(pooled), pytest.raises(ConfigurationError, match=named):
        commit_raw(first, a_pipeline(), [Raw(0, 0, VALUE)])
    with connect(direct) as session:
        assert rows(session, "SELECT * FROM offset_ledger.batch") == []


# -- a pooler that leaves a session its backend -----------------------------------------------------------------

KEEPING = [
    ("session", {}),
    ("session", {"ignore_startup_parameters": "options"}),
    ("session", {"server_round_robin": "1"}),
    ("pgpool", {}),
]


@pytest.mark.parametrize(("kind", "settings"), KEEPING, ids=["default", "options ignored", "round robin", "pgpool"])
def test_a_batch_with_a_suite_and_a_conflict_goes_through(
    direct: Connection,
    through: Callable[..., Connection],
    orders: str,
    capsys: pytest.CaptureFixture[str],
    kind: str,
    settings: dict[str, str],
) -> None:
    execute(
        direct,
        "CREATE TABLE public.orders (id text PRIMARY KEY, state text NOT NULL, code text NOT NULL UNIQUE)",
    )
    through(kind, **settings)
    for line in ("migrate", "check", "ingest", "verify", "verify --against-topic", "quarantine list"):
        file = [] if line == "migrate" else [orders]
        assert main([*line.split(), *file]) == 0, (line, capsys.readouterr())
    with connect(direct) as session:
        assert rows(session, "SELECT id, state, code FROM public.orders") == [["a", "new", "1"]]
        query = "SELECT \"offset\", reasons -> 0 ->> 'code' FROM offset_ledger.quarantine ORDER BY 1"
        assert rows(session, query) == [[1, "expect_column_values_to_be_in_set"], [2, "conflict"]]


def test_the_settings_of_a_session_are_there_although_the_pooler_refuses_startup_parameters(
    through: Callable[..., Connection],
) -> None:
    pooled = through("session")
    names = ("idle_in_transaction_session_timeout", "tcp_user_timeout", "TimeZone", "client_encoding", "search_path")
    shown = f"SELECT {', '.join(f'current_setting({name!r})' for name in names)}"
    with connect(pooled) as session:
        assert rows(session, shown) == [["2min", "120000", "UTC", "UTF8", "public, pg_temp"]]
    options = r"-c idle_in_transaction_session_timeout=300s --search-path=shop,\ public -c TimeZone=Asia/Tokyo"
    with connect(replace(pooled, extra={"options": options})) as session:
        assert rows(session, shown) == [["5min", "120000", "UTC", "UTF8", "shop, public"]]


def test_a_claim_ends_the_sessions_of_older_attempts_behind_the_pooler(
    through: Callable[..., Connection],
) -> None:
    pooled, pipeline = through("session"), a_pipeline()
    with connect(pooled) as session, connect(pooled) as newer:
        batch_id = planned(session, pipeline, [OffsetRange(0, 0, 2)])
        tables = claim(session, pipeline, batch_id, ME)

        def interrupted() -> Iterator[Any]:
            yield arrow([Raw(0, 0, VALUE)])
            claim(newer, pipeline, batch_id, ME)
            yield arrow([Raw(0, 1, VALUE)])

        with pytest.raises(Fenced, match="a newer one claimed epoch 2"):
            write_slices(SliceTask.of(session, pipeline, tables), interrupted())


# -- what waiting cannot mend -----------------------------------------------------------------------------------

# What PgBouncer is started with, the connection's fields, the environment, and what becomes of it.
REFUSED: dict[str, tuple[dict[str, str], dict[str, str], dict[str, str], type[Exception], str]] = {
    "unknown database": (
        {"databases": "other"},
        {},
        {},
        ConfigurationError,
        "no such database: .*; create it, or",
    ),
    "unknown user": ({}, {"login": "nobody"}, {}, AccessDenied, "refuses the login .*authentication failed"),
    "parameter": ({}, {}, {"PGGEQO": "off"}, ConfigurationError, "unsupported startup parameter: geqo.*configuration"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_login_that_the_pooler_refuses_is_no_server_that_is_away(
    through: Callable[..., Connection], monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    settings, fields, environment, error, text = REFUSED[case]
    pooled = through("session", **settings)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(error, match=text), connect(replace(pooled, **fields)):  # type: ignore[arg-type]
        pass


def test_strings_that_a_database_reads_otherwise_are_refused_where_nothing_can_ask_for_them(
    servers: Servers, through: Callable[..., Connection]
) -> None:
    pooled = through("session")
    configure(servers.postgres, standard_conforming_strings="off")
    with pytest.raises(ConfigurationError, match=r"ALTER DATABASE .* SET standard_conforming_strings TO on"):
        connect(pooled).__enter__()


# -- the doctor ---------------------------------------------------------------------------------------------------


def test_the_doctor_compares_what_a_connection_asks_for_with_what_its_session_has(
    through: Callable[..., Connection],
    orders: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pooled = through("session", ignore_startup_parameters="options")
    options = "-c statement_timeout=900s -c idle_in_transaction_session_timeout=300s -c work_mem=8192kB"
    monkeypatch.setenv(environment_name("postgres_default"), replace(pooled, extra={"options": options}).to_json())
    main(["check", orders, "--system", "--json"])
    found = {each["subject"]: each for each in json.loads(capsys.readouterr().out)}
    assert found["Postgres postgres_default: pooler"]["level"] == "ok"
    settings = found["Postgres postgres_default: settings"]
    assert settings["level"] == "warning"
    assert "statement_timeout is 0 and was sent as 900s; work_mem is 4MB and was sent as 8192kB" in str(settings)
