"""Random .proto files, and random messages of them as Google's own runtime makes and serializes them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

import grpc_tools
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor
from grpc_tools import protoc
from hypothesis import settings
from hypothesis import strategies as st

from offset_ledger.model.writer_schema import SchemaLanguage, WriterSchema
from tests.examples import ALL

EXAMPLES = 300
AT = datetime(2026, 3, 4, tzinfo=UTC)
MESSAGES = 5
_FILES = 12 if settings().max_examples <= ALL else 200
randoms = st.randoms(use_true_random=True)
seeds = st.integers(0, _FILES * MESSAGES - 1)
SYNTAXES = ("proto2", "proto3", "edition")
KEYS = (
    *("int32", "int64", "uint32", "uint64", "sint32", "sint64"),
    *("fixed32", "fixed64", "sfixed32", "sfixed64", "bool", "string"),
)
SCALARS = (*KEYS, "double", "float", "bytes")
WELL_KNOWN = {
    "timestamp": ("Timestamp",),
    "duration": ("Duration",),
    "struct": ("Struct", "Value", "ListValue"),
    "wrappers": (
        *("DoubleValue", "FloatValue", "Int64Value", "UInt64Value", "Int32Value", "UInt32Value"),
        *("BoolValue", "StringValue", "BytesValue"),
    ),
    "any": ("Any",),
    "field_mask": ("FieldMask",),
}
_WELL_KNOWN = [f"google.protobuf.{name}" for names in WELL_KNOWN.values() for name in names]
_HEADS = {"proto2": 'syntax = "proto2";', "proto3": 'syntax = "proto3";', "edition": 'edition = "2023";'}
_INCLUDE = str(Path(grpc_tools.__file__).parent / "_proto")


@dataclass(frozen=True)
class Case:
    """A message type: its file, and the class that Google's runtime makes of it."""

    text: str
    name: str
    writer: WriterSchema
    make: Any


@lru_cache(maxsize=512)
def official(text: str) -> Any:
    """The messages of a .proto text by full name, in a pool of their own."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a.proto").write_text(text)
        output = f"{folder}/out"
        code = protoc.main(
            ["", f"-I{folder}", f"-I{_INCLUDE}", "--include_imports", f"--descriptor_set_out={output}", "a.proto"]
        )
        assert code == 0, text
        files = descriptor_pb2.FileDescriptorSet.FromString(Path(output).read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def writer_schema(text: str) -> WriterSchema:
    """The text as a registry gives it."""
    return WriterSchema(1, SchemaLanguage.PROTOBUF, text)


@lru_cache(maxsize=2048)
def case(seed: int, flat: bool = False) -> Case:
    """One message type of the file of this seed."""
    text = proto_text(seed // MESSAGES, flat)
    name = f"t.M{seed % MESSAGES}"
    return Case(text, name, writer_schema(text), official(text)(name))


@lru_cache(maxsize=512)
def proto_text(seed: int, flat: bool = False) -> str:
    """A random file of some messages."""
    random = Random(seed)
    syntax = SYNTAXES[seed % 3]
    imports = "".join(f'import "google/protobuf/{name}.proto";\n' for name in WELL_KNOWN)
    first = random.choice((0, 0, 3, -2)) if syntax == "proto2" else 0
    values = [first, *random.sample([1, 2, 7, -1, 2**31 - 1, -(2**31)], 3)]
    symbols = " ".join(f"E_{place} = {value};" for place, value in enumerate(values))
    alias = f"option allow_alias = true; E_AGAIN = {first};" if random.random() < 0.3 else ""
    closed = "option features.enum_type = CLOSED;" if syntax == "edition" and random.random() < 0.3 else ""
    enum = f"enum E {{ {closed} {symbols} {alias} }}\n"
    bodies = "\n".join(
        f"message M{place} {{\n{_fields(random, place, syntax, flat, bool(closed))}}}" for place in range(MESSAGES)
    )
    return f"{_HEADS[syntax]}\npackage t;\n{imports}{enum}{bodies}\n"


def _fields(random: Random, place: int, syntax: str, flat: bool, closed: bool) -> str:
    count = random.randint(1, 9)
    numbers = random.sample([*range(1, 20), 100, 2047, 2048, 18_999, 20_000, 536_870_911], count + 2)
    if flat or random.random() < 0.5:
        numbers.sort()
    lines = [_field(random, f"f{n}", number, place, syntax, flat, closed) for n, number in enumerate(numbers[:count])]
    if random.random() < 0.4:
        one, two = (f"    {_type(random, place, flat)} o{n} = {numbers[-n]};\n" for n in (1, 2))
        lines.append(f"  oneof choice {{\n{one}{two}  }}\n")
    return "".join(lines)


def _type(random: Random, place: int, flat: bool) -> str:
    kind = random.random()
    if kind < 0.6:
        return random.choice(SCALARS)
    if kind < 0.7:
        return "E"
    if flat:
        return "google.protobuf.Timestamp" if kind < 0.8 else random.choice(SCALARS)
    if kind < 0.85 and place + 1 < MESSAGES:
        return f"M{random.randint(place + 1, MESSAGES - 1)}"
    if kind < 0.9 and random.random() < 0.3:
        return f"M{place}"
    return random.choice(_WELL_KNOWN)


def _field(random: Random, name: str, number: int, place: int, syntax: str, flat: bool, closed: bool) -> str:
    kind = random.random()
    type_ = _type(random, place, flat)
    if kind < 0.12 and not flat:
        value = type_ if syntax != "proto2" or type_ != "E" else "int32"
        return f"  map<{random.choice(KEYS)}, {value if not closed or value != 'E' else 'int32'}> {name} = {number};\n"
    if kind < 0.3 and not flat:
        return f"  repeated {type_} {name} = {number}{_packing(random, type_, syntax)};\n"
    if syntax == "proto3":
        return f"  {random.choice(('', '', 'optional '))}{type_} {name} = {number};\n"
    if syntax == "edition":
        return f"  {type_} {name} = {number}{_feature(random, type_, closed)};\n"
    if kind < 0.4 and not flat:
        return f"  optional group G{name} = {number} {{ optional int32 x = 1; repeated string y = 2; }}\n"
    label = "required" if random.random() < 0.15 and type_ != f"M{place}" else "optional"
    default = " [default = 5]" if type_.startswith(("int", "uint", "sint")) and label == "optional" else ""
    return f"  {label} {type_} {name} = {number}{default};\n"


def _packing(random: Random, type_: str, syntax: str) -> str:
    if type_ in ("string", "bytes") or type_.startswith(("google", "M")) or random.random() < 0.5:
        return ""
    packed = random.random() < 0.5
    if syntax == "edition":
        return f" [features.repeated_field_encoding = {'PACKED' if packed else 'EXPANDED'}]"
    return f" [packed = {str(packed).lower()}]"


def _feature(random: Random, type_: str, closed: bool) -> str:
    if type_.startswith("M"):
        return random.choice(("", " [features.message_encoding = DELIMITED]"))
    if type_.startswith("google") or (closed and type_ == "E"):
        return ""
    return random.choice(("", " [features.field_presence = IMPLICIT]", " [features.field_presence = LEGACY_REQUIRED]"))


def all_fields(descriptor: Any, depth: int = 0) -> Iterator[tuple[tuple[str, ...], FieldDescriptor]]:
    """Every field with its path, through single messages that are no well-known types."""
    for field in descriptor.fields:
        yield (field.name,), field
        inner = field.message_type
        if inner and not field.is_repeated and not inner.full_name.startswith("google.") and depth < 2:
            for path, each in all_fields(inner, depth + 1):
                yield (field.name, *path), each
