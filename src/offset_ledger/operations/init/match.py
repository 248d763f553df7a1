"""The columns of a table that exists, each with the value of the records that it is named after."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal

from offset_ledger.decoding.inferred import Proposed, column_name
from offset_ledger.errors import ConfigurationError
from offset_ledger.pipeline_file.column_types import NUMBERS, encodings_of, parse_type
from offset_ledger.pipeline_file.json_path import format_path
from offset_ledger.pipeline_file.located import Refused
from offset_ledger.pipeline_file.names import OWN_COLUMNS, check_column_name
from offset_ledger.pipeline_file.pipeline import Column
from offset_ledger.postgres.table.existing import ExistingColumn, ExistingTable

_LITERALS = (*NUMBERS, "boolean")
_EPOCHS = ((10**14, "epoch_us"), (10**11, "epoch_ms"), (0, "epoch_s"))
"""The least number of this century, nearly, in each unit."""


@dataclass(frozen=True, slots=True)
class Matched:
    """The columns of the key, none if the table is known by event_id; the others; and the doubts, in lines."""

    key: tuple[Column, ...]
    columns: tuple[Proposed, ...]
    doubts: tuple[str, ...]


def match(
    table: ExistingTable, inferred: Sequence[Proposed], values: Mapping[str, Sequence[object]], has_keys: bool
) -> Matched:
    """Match columns and values by their names; ``values`` has those of the sample by the proposed column.

    The key of the rows is the first one whose columns are all in the records. Of one column it is the Kafka key, where
    all records have one.

    Raises:
        ConfigurationError: the table has no key that the records have.
    """
    named, columns, left_out = _by_name(inferred), dict[str, Column](), dict[str, str]()
    own = [each for each in table.columns if each.name not in OWN_COLUMNS and not each.name.startswith("_")]
    of_column = {each.name: named.get(each.name) or named.get(column_name((each.name,))) for each in own}
    taken = {of.column.path for name, of in of_column.items() if of and of.column.path[-1] == name}
    for each in own:
        if (of := of_column[each.name]) and (of.column.path[-1] == each.name or of.column.path not in taken):
            taken.add(of.column.path)
            try:
                check_column_name(each.name)
                columns[each.name] = _declared(each, of.column, values[of.column.name])
            except Refused as refused:
                left_out[each.name] = f"column {each.name} of {table.name} is left out: {refused}"
    key = tuple(replace(each, nullable=False) for each in _key(table, columns, has_keys, left_out))
    in_key = {each.name for each in key}
    own = [each for each in own if each.name in in_key or not each.always]
    columns = {each.name: columns[each.name] for each in own if each.name in columns}
    read = {each.path for each in columns.values()}
    others = [each for name, each in columns.items() if name not in in_key]
    if not others and any(each.name not in in_key for each in own):
        raise ConfigurationError(
            f"table {table.name} has no column beside its key that is named like a value of the records; the records "
            f"have {', '.join(format_path(each.column.path) for each in inferred[:5])}"
        )
    needed = [each.name for each in own if not (each.nullable or each.filled or each.name in {*columns, *in_key})]
    unread = [format_path(each.column.path) for each in inferred if each.column.path not in read]
    doubts = [*left_out.values()]
    doubts += [f"{', '.join(needed)} of {table.name} may not be NULL, and no value is named so"] if needed else []
    doubts += [f"{table.name} has no column for {', '.join(unread)}"] if unread else []
    return Matched(key, tuple(Proposed(each, _doubt(each)) for each in others), tuple(doubts))


def _by_name(inferred: Sequence[Proposed]) -> dict[str, Proposed]:
    """Index the values by name as written and by default, and by the last part of their paths if that is unique."""
    by_last = defaultdict(list)
    for each in inferred:
        last = each.column.path[-1]
        for name in {last, column_name((last,))}:
            by_last[name].append(each)
    of_one = {name: those[0] for name, those in by_last.items() if len(those) == 1}
    of_one |= {each.column.name: each for each in inferred}
    return of_one | {each.column.path[0]: each for each in inferred if len(each.column.path) == 1}


def _declared(column: ExistingColumn, inferred: Column, values: Sequence[object]) -> Column:
    """Return the column with the type that the table has, read from the records' form."""
    type_ = parse_type(column.type)
    same = type_.name == inferred.type.name
    encoding = inferred.encoding if same else encodings_of(type_.name)[0]
    name, elements = type_.name.removesuffix("[]"), list[object]()
    for value in values:
        elements += value if isinstance(value, list) else [value]
    numbers = [abs(each) for each in elements if isinstance(each, int) and not isinstance(each, bool)]
    has_numbers = numbers or any(isinstance(each, float | Decimal) for each in elements)
    if has_numbers and "number" in encodings_of(type_.name):
        encoding = "number"
    elif name == "timestamptz" and numbers:
        encoding = next(name for least, name in _EPOCHS if max(numbers) >= least)
    elif name == "date" and numbers:
        encoding = "epoch_days"
    coerce = inferred.type.name.removesuffix("[]") == "text" and name in _LITERALS
    return replace(inferred, name=column.name, type=type_, nullable=column.nullable, encoding=encoding, coerce=coerce)


def _doubt(column: Column) -> str:
    if column.encoding == "number":
        return "numbers of the sample, which Postgres reads as they are written"
    if column.encoding == "epoch_days":
        return "numbers of the sample, read as days since 1970"
    return "numbers of the sample, read as moments" if column.encoding.startswith("epoch") else ""


def _key(
    table: ExistingTable, columns: Mapping[str, Column], has_keys: bool, left_out: Mapping[str, str]
) -> Sequence[Column]:
    for key in table.keys:
        if key == ("event_id",):
            return ()
        of_key = [columns[name] for name in key if name in columns]
        if len(of_key) == len(key) and all(each.type.single for each in of_key):
            return of_key
    texts = {}
    for each in table.columns:
        with suppress(Refused):
            if (type_ := parse_type(each.type)).judged or type_.name in ("text", "varchar"):
                texts[each.name] = type_
    for key in table.keys:
        if has_keys and len(key) == 1 and key[0] in texts and texts[key[0]].single:
            return [Column(key[0], texts[key[0]], (), key=())]
    there = " or ".join(f"({', '.join(key)})" for key in table.keys) or "no primary key or unique index"
    wrong = dict(left_out) | {
        name: f"a key of {column.type.sql} would have many texts"
        for name, column in columns.items()
        if not column.type.single
    }
    in_keys = dict.fromkeys(name for key in table.keys for name in key)
    why = "; ".join(wrong[name] for name in in_keys if name in wrong)
    raise ConfigurationError(
        f"table {table.name} knows its rows by {there}, and {why or 'no sampled record has values of these names'}; "
        "create a unique index on columns that the records have, or write record.key yourself, with the path of each"
    )
