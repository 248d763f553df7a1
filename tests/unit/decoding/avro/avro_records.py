"""Random Avro schemas, with the values that fastavro writes by them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[Any]], Any]

INTS = st.one_of(st.integers(-70, 70), st.integers(-(2**31), 2**31 - 1))
LONGS = st.one_of(INTS, st.integers(-(2**63), 2**63 - 1))
TEXTS = st.one_of(st.text('ab é€😀0\0"\\', max_size=6), st.sampled_from(["2026-01-02", "0" * 300]))
DATETIMES = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999))
PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
LOGICAL = [
    ("int", "date"), ("int", "time-millis"), ("long", "time-micros"), ("long", "timestamp-millis"),
    ("long", "timestamp-micros"), ("long", "timestamp-nanos"), ("long", "local-timestamp-millis"),
    ("long", "local-timestamp-micros"), ("string", "uuid"), ("string", "of-somebody"),
]  # fmt: skip


def _millis(moment: datetime) -> datetime:
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def _aware(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC)


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": INTS,
    "long": LONGS,
    "float": st.floats(width=32),
    "double": st.floats(),
    "bytes": st.binary(max_size=6),
    "string": TEXTS,
    "date": st.one_of(st.dates(), INTS),
    "time-millis": st.one_of(st.times().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)), INTS),
    "time-micros": st.one_of(st.times(), LONGS),
    "timestamp-millis": st.one_of(DATETIMES.map(_millis).map(_aware), LONGS),
    "timestamp-micros": st.one_of(DATETIMES.map(_aware), LONGS),
    "timestamp-nanos": st.one_of(LONGS, st.integers(-(10**15), 10**15).map(lambda n: n * 1000)),
    "local-timestamp-millis": DATETIMES.map(_millis),
    "local-timestamp-micros": DATETIMES,
    "uuid": st.one_of(st.uuids(), st.just("not-a-uuid")),
    "of-somebody": TEXTS,
}


def branch_name(branch: Any) -> str:
    """How fastavro names a branch of a union."""
    return branch if isinstance(branch, str) else str(branch.get("name", branch["type"]))


class SchemaDraw:
    """Draws one schema; ``flat`` has no arrays, maps, recursion, nor unions of more than null and another."""

    def __init__(self, draw: Draw, flat: bool = False, logical: bool = True) -> None:
        self.draw, self.flat, self.with_logical = draw, flat, logical
        self.count = 0
        self.done: list[str] = []
        self.open: list[str] = []
        self.namespace = ""

    def record(self, depth: int) -> dict[str, Any]:
        """A record with up to four fields."""
        name = self.new_name()
        outside, full = self.namespace, self.full(name)
        self.namespace = full.rpartition(".")[0]
        self.open.append(full)
        count = self.draw(st.integers(0 if depth < 3 else 1, 4))
        fields = [{"name": f"f{index}", "type": self.type(depth - 1)} for index in range(count)]
        self.open.remove(full)
        self.done.append(full)
        self.namespace = outside
        return {"type": "record", "name": name, "fields": fields}

    def full(self, name: str) -> str:
        """The name with its namespace."""
        return name if "." in name else f"{self.namespace}.{name}"

    def new_name(self) -> str:
        """A name that is not yet defined."""
        self.count += 1
        return f"{self.draw(st.sampled_from(['', 'a.', 'a.b.']))}N{self.count}" if self.count > 1 else "a.N1"

    def type(self, depth: int) -> Any:
        """A type with at most so many levels below it."""
        kinds = ["primitive"] * 3 + ["fixed", "enum", "nullable", "nullable"]
        kinds += ["logical", "logical", "decimal"] if self.with_logical else []
        if depth > 0:
            kinds += ["record"] if self.flat else ["record", "array", "map", "union", "recursion"]
        if self.done and not self.flat:
            kinds.append("named")
        return getattr(self, self.draw(st.sampled_from(kinds)))(depth)

    def primitive(self, _: int) -> Any:
        name = self.draw(st.sampled_from(PRIMITIVES))
        return self.draw(st.sampled_from([name, {"type": name}]))

    def logical(self, _: int) -> Any:
        primitive, name = self.draw(st.sampled_from(LOGICAL))
        return {"type": primitive, "logicalType": name}

    def decimal(self, _: int) -> Any:
        precision = self.draw(st.integers(1, 12))
        said = {"logicalType": "decimal", "precision": precision, "scale": self.draw(st.integers(0, precision))}
        if self.draw(st.booleans()):
            return {"type": "bytes", **said}
        return self.defined({"type": "fixed", "name": self.new_name(), "size": 6, **said})

    def fixed(self, _: int) -> Any:
        logical = [(16, {"logicalType": "uuid"}), (12, {"logicalType": "duration"})] if self.with_logical else []
        size, more = self.draw(st.sampled_from([(0, {}), (3, {}), *logical]))
        return self.defined({"type": "fixed", "name": self.new_name(), "size": size, **more})

    def enum(self, _: int) -> Any:
        symbols = self.draw(st.lists(st.sampled_from(["A", "B", "C_1", "_d"]), min_size=1, unique=True))
        return self.defined({"type": "enum", "name": self.new_name(), "symbols": symbols})

    def defined(self, said: dict[str, Any]) -> dict[str, Any]:
        self.done.append(self.full(said["name"]))
        return said

    def nullable(self, depth: int) -> Any:
        inner = self.type(depth)
        if inner in ("null", {"type": "null"}) or isinstance(inner, list):
            return inner
        return self.draw(st.sampled_from([["null", inner], [inner, "null"]]))

    def array(self, depth: int) -> Any:
        return {"type": "array", "items": self.type(depth - 1)}

    def map(self, depth: int) -> Any:
        return {"type": "map", "values": self.type(depth - 1)}

    def union(self, depth: int) -> Any:
        kept: dict[str, Any] = {}
        for _ in range(self.draw(st.integers(1, 4))):
            defined = len(self.done)
            branch = self.type(depth - 1)
            kind = "" if isinstance(branch, list) else self.full(branch_name(branch))
            if not kind or kind in kept:
                del self.done[defined:]
            else:
                kept[kind] = branch
        return list(kept.values()) or "null"

    def recursion(self, _: int) -> Any:
        name = self.draw(st.sampled_from(self.open))
        return self.draw(
            st.sampled_from([["null", name], {"type": "array", "items": name}, {"type": "map", "values": name}])
        )

    def named(self, _: int) -> Any:
        return self.draw(st.sampled_from(self.done))


class Written:
    """A schema as fastavro understands it, and its values."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.named: dict[str, Any] = {}
        self.parsed: Any = fastavro.parse_schema(schema, named_schemas=self.named)

    def resolve(self, said: Any) -> Any:
        """The schema of a name, as a dict; a primitive too."""
        if isinstance(said, list):
            return said
        said = self.named.get(said, {"type": said}) if isinstance(said, str) else said
        return said

    def value(self, draw: Draw, said: Any, depth: int = 0) -> Any:
        """A value that fastavro takes; of a union, the branch and its value."""
        said = self.resolve(said)
        if isinstance(said, list):
            branches = [each for each in said if each == "null"] if depth > 4 else []
            branch = draw(st.sampled_from(branches or said))
            return branch_name(branch), self.value(draw, branch, depth + 1)
        most = 3 if depth < 4 else 0
        match said["type"]:
            case "record":
                return {each["name"]: self.value(draw, each["type"], depth + 1) for each in said["fields"]}
            case "array":
                return [self.value(draw, said["items"], depth + 1) for _ in range(draw(st.integers(0, most)))]
            case "map":
                keys = draw(st.lists(st.sampled_from(["k", "", "é", "k.1"]), max_size=most, unique=True))
                return {key: self.value(draw, said["values"], depth + 1) for key in keys}
        return draw(_single(said))

    def write(self, value: Any) -> bytes:
        """The value in Avro's binary encoding."""
        out = BytesIO()
        fastavro.schemaless_writer(out, self.parsed, value)
        return out.getvalue()

    def places(self, said: Any, path: tuple[str, ...] = (), depth: int = 0) -> Iterator[tuple[tuple[str, ...], Any]]:
        """Every path into the schema with what is there, as far as four members deep."""
        said = self.resolve(said)
        if path:
            yield path, said
        if isinstance(said, list):
            for branch in said:
                yield from (each for each in self.places(branch, path, depth) if each[0] != path)
        elif said["type"] == "record" and depth < 4:
            for each in said["fields"]:
                yield from self.places(each["type"], (*path, each["name"]), depth + 1)
        elif said["type"] == "map" and depth < 4:
            yield from self.places(said["values"], (*path, "k"), depth + 1)


def _single(said: dict[str, Any]) -> st.SearchStrategy[Any]:
    logical = said.get("logicalType")
    if logical == "decimal":
        most = 10 ** said["precision"] - 1
        return st.integers(-most, most).map(lambda unscaled: Decimal(unscaled).scaleb(-said["scale"]))
    if said["type"] == "fixed":
        return st.binary(min_size=said["size"], max_size=said["size"])
    if said["type"] == "enum":
        return st.sampled_from(said["symbols"])
    return VALUES[logical or said["type"]]


@st.composite
def schemas(draw: Draw, flat: bool = False, logical: bool = True) -> dict[str, Any]:
    """A schema of a record."""
    found: dict[str, Any] = SchemaDraw(draw, flat, logical).record(3)
    return found


@st.composite
def record_unions(draw: Draw, flat: bool = False) -> list[Any]:
    """A schema that is a union of records, and perhaps null."""
    drawn, union = SchemaDraw(draw, flat), list[Any]()
    drawn.namespace = "a"
    for _ in range(draw(st.integers(1, 3))):
        record = drawn.record(2)
        union.append(record | {"name": drawn.done[-1]})
    if draw(st.booleans()):
        union.insert(draw(st.integers(0, len(union))), "null")
    return union
