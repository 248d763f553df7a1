"""Records that a foreign key, or a unique constraint besides the key, would refuse, found before the merge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from psycopg2 import sql

from offset_ledger.pipeline_file.pipeline import Merge, Pipeline, RecordShape
from offset_ledger.postgres.ledger.database import Cursor, named_sql
from offset_ledger.postgres.ledger.row_order import by_log, order_columns, row_formats, same_key, table_of
from offset_ledger.postgres.ledger.staging import catalog_type, row_columns, typed_keys
from offset_ledger.postgres.table.fit import (
    Reference,
    Unique,
    no_longer_declared,
    own_references,
    own_uniques,
    target_columns,
)

_COMMA, _AND = sql.SQL(", "), sql.SQL(" AND ")


@dataclass(frozen=True, slots=True)
class Conflict:
    """A constraint that some staged records would break.

    ``rule`` says what it demands. In the session, ``coordinates_sql`` selects ``_partition, _offset`` of each,
    ``reasons_sql`` also its ``reason``.
    """

    name: str
    place: int
    columns: tuple[str, ...]
    rule: str
    failing: int
    coordinates_sql: str
    reasons_sql: str


def find_conflicts(cursor: Cursor, pipeline: Pipeline, staging: sql.Composable, batch_id: int) -> list[Conflict]:
    """Find staged records that would win their key but hold another key's values, or refer to a missing row.

    Of two records that bring the same values, the later one by the order loses. Without a record that loses, an older
    one of its key may win, and is looked at too. A row of the table gives its values up for a constraint that waits for
    the end of the statement; any other refuses them row by row, also where the same merge would change that row.

    A foreign key is judged after all rows are written: one to the table itself may refer to another record's row.
    Postgres does not look at the reference that a row has already.
    """
    # A constraint on no column that the pipeline writes refuses no record.
    written = [name for name, _ in target_columns(pipeline)]
    uniques = [each for each in own_uniques(cursor, pipeline) if not each.excludes and each.is_of(written)]
    references = [each for each in own_references(cursor, pipeline) if each.is_readable]
    if not (uniques or references):
        return []
    target = table_of(pipeline)
    staging = typed_keys(pipeline.record, staging)
    names = {"staging": staging, **row_formats(shape := replace(pipeline.record, log_orders=False))}
    is_newer = "({order}) > ({stored_order})"
    if pipeline.record.log_orders:
        names["staging"] = _in_log_order(pipeline, staging, batch_id)
        is_newer = "s._newer"
    names["first_key"] = _COMMA.join(
        sql.SQL("first_value({}) OVER _of_value").format(sql.Identifier(name)) for name in pipeline.record.key_names
    )
    first_wins = pipeline.target.merge is Merge.SKIP_EXISTING
    newest_first = sql.SQL("" if first_wins else " DESC")
    names["by_rule"] = sql.SQL("publish_at{0}, _partition{0}, _offset{0}").format(newest_first)
    kept, joined = names, sql.SQL("{} AS t ON {same_key}").format(target, **names)
    if pipeline.target.beside:  # the bookkeeping b says what loses, also to a delete; the stored row t has no order
        kept = row_formats(shape, "b")
        joined = sql.SQL("{} LEFT JOIN {} AS b ON {same_key}").format(joined, table_of(pipeline.bookkeeping), **kept)
        kinds = dict(row_columns(pipeline.record))
        nulls = (sql.SQL(f"NULL::{catalog_type(kinds[name])}") for name in order_columns(pipeline.record))
        names["stored_order"] = _COMMA.join(nulls)
    rules = [
        *(_unique(place, each, target) for place, each in enumerate(uniques, 1)),
        *(_reference(place, each, pipeline.record) for place, each in enumerate(references, len(uniques) + 1)),
    ]
    of_each = [(rule, {**names, **rule.formats}) for rule in rules]
    is_written = "{known} IS NULL" if first_wins else f"{{known}} IS NULL OR {is_newer}"
    if first_wins and pipeline.target.beside:  # a row that the table had before the first batch is the first
        is_written += " AND {row_known} IS NULL"
    image = _image(cursor, pipeline)
    formats = {
        **names,
        "image": _COMMA.join([*image["image"], *(column for rule in rules for column in rule.stored)]),
        "generated": _COMMA.join(image["generated"]),
        "joined": joined,
        "written": sql.SQL(is_written).format(**kept, row_known=names["known"]),
        "claimed": _COMMA.join(each["claimed"] for _, each in of_each),
        "contended": sql.SQL(" UNION ").join(_statement(rule.contended, each) for rule, each in of_each),
        "claims": sql.SQL(" UNION ALL ").join(_statement(rule.claims, each) for rule, each in of_each),
        "runs": _COMMA.join(_statement("run", each) for _, each in of_each),
        "details": sql.Literal([rule.detail for rule in rules]),
        "paths": sql.Literal([", ".join(rule.columns) for rule in rules]),
        "holders": sql.Literal([rule.holder for rule in rules]),
    }
    cursor.execute(_statement("create", formats))
    while cursor.execute(_statement("insert_losers", formats)).rowcount:
        cursor.run("conflicts/delete_losers")
    conflicts = list[Conflict]()
    for place, rule in enumerate(rules, 1):
        of_place = {"place": sql.Literal(place)}
        queries = (_statement(f"failing_{of}", of_place).as_string(cursor) for of in ("coordinates", "reasons"))
        if failing := cursor.run("conflicts/count", place=place).one()[0]:
            conflicts.append(Conflict(rule.name, place, tuple(rule.columns), rule.text, failing, *queries))
    return conflicts


def _in_log_order(pipeline: Pipeline, staging: sql.Composable, batch_id: int) -> sql.Composable:
    record = pipeline.record
    columns = [name for name, _ in row_columns(record) if name != "publish_at"]
    return sql.SQL(named_sql("log_order/contenders")).format(
        columns=_COMMA.join(sql.Identifier("s", name) for name in columns),
        in_order=by_log(pipeline, staging, sql.Literal(batch_id)),
        target=table_of(pipeline.bookkeeping),
        **row_formats(record),
    )


def _statement(name: str, formats: Mapping[str, sql.Composable]) -> sql.Composable:
    return sql.SQL(named_sql(f"conflicts/{name}")).format(**formats)


def _image(cursor: Cursor, pipeline: Pipeline) -> dict[str, list[sql.Composable]]:
    """The columns of the table as the merge of a staged row ``s`` leaves them, and the generated ones after these."""
    record, target = pipeline.record, pipeline.target
    staged = {name: name for name, _ in row_columns(record)}
    known = row_formats(record)["known"]
    emptied, order = no_longer_declared(cursor, pipeline), list[str]()
    if target.beside:
        staged = {column.name: column.name for column in record.all_columns}
        staged |= {own: name for name, own in target.copied}
        order = order_columns(record)
    goes = sql.SQL("{} AS _goes").format(sql.Identifier("s", "_deleted") if target.beside else sql.Literal(False))
    image: list[sql.Composable] = [goes, *(sql.Identifier("s", name) for name in order)]
    generated: list[sql.Composable] = [sql.SQL("*")]
    for row in cursor.run("conflicts/columns", schema=target.schema, table=target.table):
        name = row["name"]
        if name in order:
            continue
        if row["generated"]:
            generated.append(sql.SQL("({}) AS {}").format(sql.SQL(row["generated"]), sql.Identifier(name)))
        else:
            value: sql.Composable = sql.Identifier("t", name)
            if name in emptied:
                value = sql.NULL
            elif name in staged and staged[name] != "_batch_id":
                value = sql.Identifier("s", staged[name])
            elif row["filled"] and not row["unforeseen"]:
                new = sql.SQL(row["filled"])
                value = sql.SQL("CASE WHEN {} IS NULL THEN {} ELSE {} END").format(known, new, value)
            image.append(sql.SQL("{}::{} AS {}").format(value, sql.SQL(row["type"]), sql.Identifier(name)))
    return {"image": image, "generated": generated}


@dataclass(frozen=True, slots=True)
class _Rule:
    """A constraint in the search: the statements about it with their open parts, and the text about a record.

    ``stored`` are columns of the stored row that these need; their values, and its own, have names that no column of a
    user has.
    """

    name: str
    columns: list[str]
    text: str
    detail: str
    holder: str
    contended: str
    claims: str
    formats: dict[str, sql.Composable]
    stored: list[sql.Composable] = field(default_factory=list)


def _unique(place: int, unique: Unique, target: sql.Composable) -> _Rule:
    """Return the rule of a unique constraint: one of two rows with the same values loses."""
    values, claimed = _values(place, unique.parts)
    holds = sql.Identifier(f"_holds_{place}")
    held = sql.SQL("({})").format(sql.SQL(unique.predicate))
    if not unique.nulls_are_equal:
        held = sql.SQL("({} AND num_nulls({}) = 0)").format(held, _COMMA.join(map(sql.SQL, unique.parts)))
    equal = "({0}.{2} = {1}.{2} OR num_nulls({0}.{2}, {1}.{2}) = 2)" if unique.nulls_are_equal else "{0}.{2} = {1}.{2}"
    of = {alias: sql.Identifier(alias) for alias in ("t", "v")}
    formats: dict[str, sql.Composable] = {
        "place": sql.Literal(place),
        "waits": sql.Literal(unique.waits),
        "holds": holds,
        "values": _COMMA.join(values),
        "claimed": _COMMA.join([sql.SQL("{} AND NOT _goes AS {}").format(held, holds), *claimed]),
        "stored": sql.SQL("(SELECT t.*, {} FROM {} AS t WHERE {})").format(_COMMA.join(claimed), target, held),
        "stored_values": _COMMA.join(sql.SQL("{}.{}").format(of["t"], value) for value in values),
        "same_values": _AND.join(sql.SQL(equal).format(of["t"], of["v"], value) for value in values),
    }
    text, detail = f"{unique.name} keeps rows of different keys apart", f"{unique.name} keeps rows apart: "
    return _Rule(unique.name, unique.columns, text, detail, " is that of event ", "contended", "claims", formats)


def _reference(place: int, reference: Reference, record: RecordShape) -> _Rule:
    """A foreign key: a row loses that refers to none."""
    values, claimed = _values(place, reference.parts)
    kept = [sql.Identifier(f"_kept_{place}_{n}") for n in range(len(values))]
    names = [sql.Identifier(f"_referenced_{place}_{n}") for n in range(len(values))]
    own = list(map(sql.SQL, reference.columns))
    referenced = list(map(_as, map(sql.SQL, reference.referenced), names))
    holds = sql.Identifier(f"_holds_{place}")
    # Postgres does not look again at a reference that stays as it is.
    refers = "num_nonnulls({own}) > 0" if reference.is_full else "num_nulls({own}) = 0"
    refers = f"{refers} AND NOT _goes AND ({{kept}}) IS DISTINCT FROM ({{own}})"
    holding = sql.SQL(refers).format(own=_COMMA.join(own), kept=_COMMA.join(kept))
    compared = zip(names, map(sql.SQL, reference.operators), values, strict=True)
    is_orphan = _statement(
        "is_orphan_self" if reference.is_self else "is_orphan",
        {
            "table": sql.SQL(reference.table if reference.is_partitioned else f"ONLY {reference.table}"),
            "referenced": _COMMA.join(referenced),
            "equal": _AND.join(sql.SQL("p.{} {} v.{}").format(*each) for each in compared),
            "same_key": same_key(record, "p", "s"),
        },
    )
    # A record that is refused can make an orphan of any that refers to a row of the table itself.
    doubtful = sql.SQL("true") if reference.is_self else sql.SQL("{} AND {}").format(holds, is_orphan)
    formats = {
        "place": sql.Literal(place),
        "holds": holds,
        "values": _COMMA.join(values),
        "claimed": _COMMA.join([_as(holding, holds), *claimed, *(referenced if reference.is_self else ())]),
        "shown": _COMMA.join(sql.SQL("coalesce({}::text, 'NULL')").format(value) for value in values),
        "is_orphan": is_orphan,
        "doubtful": doubtful,
    }
    return _Rule(
        reference.name,
        reference.columns,
        f"{reference.name} refers to {reference.table}",
        f"{reference.name}{' (MATCH FULL)' * reference.is_full}: table {reference.table} has no row for ",
        "",
        "doubtful",
        "orphans",
        formats,
        [_as(sql.SQL("t.{}").format(column), name) for column, name in zip(own, kept, strict=True)],
    )


def _values(place: int, parts: Sequence[str]) -> tuple[list[sql.Identifier], list[sql.Composable]]:
    """The names of a constraint's values, and these parts of it under those names."""
    values = [sql.Identifier(f"_value_{place}_{n}") for n in range(len(parts))]
    return values, [_as(sql.SQL(part), value) for part, value in zip(parts, values, strict=True)]


def _as(value: sql.Composable, name: sql.Identifier) -> sql.Composable:
    return sql.SQL("{} AS {}").format(value, name)
