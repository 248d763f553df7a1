"""The proof of this demo: every row and every quarantined record, compared with what was published."""

from collections.abc import Iterator, Sequence
from typing import Any

from psycopg2 import sql

from offset_ledger.demo.formats import files
from offset_ledger.demo.formats.publishing import Published, Topic
from offset_ledger.demo.proof import Claim
from offset_ledger.ledger.database import Cursor, named_sql

COLUMNS = ("event_id", "publish_at", "carrier", "origin", "destination", "dep_delay", "distance", "air_time")
WHERE_FROM = ("_partition", "_offset", "_schema_id")
_AIR_TIME = COLUMNS.index("air_time")
_SINCE_VERSION = 2  # of the Avro schema: air_time


def prove(cursor: Cursor, topic: Topic, has_air_time: bool = True, when: str = "") -> Iterator[Claim]:
    """The claims about the table and the quarantine of a topic: as sets of whole rows."""
    wanted = set(expected_rows(topic.published, topic.name, has_air_time))
    rows = _rows(cursor, topic.name, has_air_time)
    table = f"{topic.name}{when}"
    yield Claim(f"{table}: rows", len(wanted), len(rows))
    yield Claim(f"{table}: flights whose newest state is not in the table", 0, len(wanted - set(rows)))
    yield Claim(f"{table}: rows that are no flight's newest state", 0, len(set(rows) - wanted))
    spoiled = {
        (each.partition, each.offset, each.sending.poison.code, each.value)
        for each in topic.published
        if each.sending.poison
    }
    cursor.execute(named_sql("demo/format_quarantine"), {"pipeline": topic.name})
    kept = {(row[0], row[1], row[2], bytes(row[3])) for row in cursor.fetchall()}
    yield Claim(f"{table}: records in quarantine", len(spoiled), len(kept))
    yield Claim(f"{table}: spoiled records not in quarantine with their bytes and reason", 0, len(spoiled - kept))
    yield Claim(f"{table}: records in quarantine that are not spoiled", 0, len(kept - spoiled))


def expected_rows(published: Sequence[Published], topic: str, has_air_time: bool) -> Iterator[tuple[Any, ...]]:
    """The rows that these records must come to; a record of an older schema has no time in the air."""
    newest: dict[str, Published] = {}
    for each in (each for each in published if not each.sending.poison):
        before = newest.get(each.sending.flight.event_id)
        if before is None or _order(before) < _order(each):
            newest[each.sending.flight.event_id] = each
    for each in newest.values():
        values = list(each.sending.flight.document().values())
        if topic == files.AVRO and each.sending.version < _SINCE_VERSION:
            values[_AIR_TIME] = None
        yield (*(values if has_air_time else values[:_AIR_TIME]), each.partition, each.offset, each.schema_id)


def fingerprint(cursor: Cursor, topic: Topic) -> tuple[Any, ...]:
    """Changes with every row of the table that is inserted, rewritten or deleted."""
    table = sql.Identifier("public", topic.name)
    cursor.execute(sql.SQL(named_sql("demo/format_fingerprint")).format(table=table))
    return tuple(cursor.one())


def column_types(cursor: Cursor, topic: Topic) -> dict[str, str]:
    """The types of the columns that the pipeline file declares, as Postgres prints them."""
    cursor.execute(named_sql("table/columns"), {"columns": [], "schema": "public", "table": topic.name})
    types = {row["name"]: row["type"] for row in cursor.fetchall()}
    return {name: types[name] for name in ("distance", "air_time") if name in types}


def changes(cursor: Cursor, topic: Topic) -> str:
    """Return what the pipeline has changed in its table, by the ledger."""
    cursor.execute(named_sql("demo/target_changes"), {"pipeline": topic.name})
    return "; ".join(row["clause"] for row in cursor.fetchall()) or "none"


def _order(each: Published) -> tuple[Any, ...]:
    return each.sending.flight.published_at, each.partition, each.offset


def _rows(cursor: Cursor, table: str, has_air_time: bool) -> list[tuple[Any, ...]]:
    columns = [*(COLUMNS if has_air_time else COLUMNS[:_AIR_TIME]), *WHERE_FROM]
    query = sql.SQL(named_sql("demo/format_rows"))
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    cursor.execute(query.format(columns=names, table=sql.Identifier("public", table)))
    return [tuple(row) for row in cursor.fetchall()]
