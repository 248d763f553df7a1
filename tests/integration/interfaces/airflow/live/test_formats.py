"""The demo of record formats on a live Airflow: Avro, whose schema changes twice, Protobuf, JSON Schema, Debezium."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from offset_ledger.operations.repair.verify import verify
from offset_ledger.outside.connections import environment_name
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.postgres.ledger.database import Cursor, connect
from offset_ledger_kit.demo.formats import topics
from offset_ledger_kit.demo.formats.run import Place, Story, prove
from offset_ledger_kit.demo.run import Claim, Stopwatch
from tests.fixtures.airflow_world import World
from tests.fixtures.connect import a_connect, a_source
from tests.fixtures.registry import running_registry
from tests.integration.interfaces.airflow.live.conftest import Played, Scene, as_stored

pytestmark = [pytest.mark.full, pytest.mark.minutes(3), pytest.mark.timeout(2700)]

FLIGHTS = 300


@dataclass(frozen=True)
class Told:
    """What the demo has come to."""

    claims: list[Claim]
    story: Story


def play(scene: Scene) -> Told:
    world, opened = scene.world, scene.until_the_end
    dags = world.project / "dags" / "formats"
    registry, session = opened.enter_context(running_registry()), opened.enter_context(connect(world.postgres))
    connection = registry.connection()
    patch = opened.enter_context(pytest.MonkeyPatch.context())
    patch.setenv(environment_name(connection.conn_id), connection.to_json())
    world.call("POST", "/connections", as_stored(connection), expect=201)
    topics.write_dags(dags)
    source = opened.enter_context(a_source())
    worker = opened.enter_context(
        a_connect(source.directory.parent / "connect", world.kafka.extra["bootstrap.servers"])
    )
    place = Place(world.airflow, dags, world.kafka, connection, registry.stop, 1, source.connection(), worker)
    story = Story(place, session, Stopwatch(), print)
    return Told(list(story.claims(FLIGHTS)), story)


@pytest.fixture(scope="module")
def told(played: Played) -> Told:
    return played(play)


PLAYS = {"told": play}


def test_every_claim_of_the_demo_is_true(told: Told) -> None:
    assert [str(claim) for claim in told.claims if not claim.holds] == []
    found = {claim.text: claim.found for claim in told.claims}
    assert {name: found[f"{name}: rows"] for name in ("flights_protobuf", "flights_json_schema")} == {
        "flights_protobuf": FLIGHTS,
        "flights_json_schema": FLIGHTS,
    }
    assert found["flights_avro after v3, with a wider type: rows"] == FLIGHTS
    assert "flights_avro: replay of what names known schemas, without the registry changed no row" in found


SPOILING = {
    "a row from another offset": "UPDATE public.flights_avro SET _offset = _offset + 1",
    "a row by another schema": "UPDATE public.flights_avro SET _schema_id = _schema_id + 1",
    "a distance that is one off": "UPDATE public.flights_avro SET distance = distance + 1",
    "a lost row": "DELETE FROM public.flights_avro",
    "another reason": 'UPDATE offset_ledger.quarantine SET reasons = \'[{"code": "nul"}]\'',
    "another byte": "UPDATE offset_ledger.quarantine SET value = value || '\\x00'",
}
ONE = {"public.flights_avro": "event_id", "offset_ledger.quarantine": "quarantine_id"}


@pytest.mark.parametrize("statement", SPOILING.values(), ids=SPOILING)
def test_the_proof_notices_one_wrong_row(told: Told, world: World, statement: str) -> None:
    table = next(name for name in ONE if name in statement)
    topic = told.story.topics[topics.AVRO]
    within = "pipeline = 'flights_avro'" if table != "public.flights_avro" else "true"
    with connect(world.postgres) as session, session.cursor(cursor_factory=Cursor) as cursor:
        assert all(claim.holds for claim in prove(cursor, topic))
        cursor.execute(f"{statement} WHERE {ONE[table]} = (SELECT min({ONE[table]}) FROM {table} WHERE {within})")
        assert cursor.rowcount == 1
        assert not all(claim.holds for claim in prove(cursor, topic))
        session.rollback()


@pytest.mark.usefixtures("told")
def test_the_ledgers_invariants_hold_after_it(world: World) -> None:
    paths = [world.project / "dags" / "formats" / "pipelines" / f"{name}.yaml" for name in topics.PIPELINES]
    assert {path.stem: verify(parse_pipeline(path))[0] for path in paths} == {name: [] for name in topics.PIPELINES}
