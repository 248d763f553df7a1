"""Schemas by protoc: what is taken, what is refused, and which message a payload is."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry.confluent import meta_pb2
from confluent_kafka.schema_registry.confluent.type import decimal_pb2, variant_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from offset_ledger.decoding.outcome import Code, Mismatch, SchemaProblem
from offset_ledger.decoding.protobuf.schema import (
    MAX_BYTES,
    ProtobufSchema,
    compile_proto,
    compile_schema,
    known_files,
    message_at,
    message_indexes,
    message_named,
)
from offset_ledger.model.writer_schema import SchemaLanguage, SchemaReference, WriterSchema

PROTO3 = 'syntax = "proto3"; '
NESTED_OPTION = (
    'syntax = "proto3"; import "google/protobuf/descriptor.proto"; message O { O o = 1; } '
    "extend google.protobuf.MessageOptions { O o = 1000; } "
    "message A { option (o) = {" + "o: {" * 100 + "}" * 100 + "}; }"
)


def schema_of(text: str, **references: str) -> ProtobufSchema:
    """The schema with references; their names have __ for / and are .proto files."""
    named = [(name.replace("__", "/") + ".proto", content) for name, content in references.items()]
    return compile_schema(writer(text, *named))


def writer(text: str, *references: tuple[str, str]) -> WriterSchema:
    """The schema as a registry gives it."""
    found = tuple(SchemaReference(name, f"{name}-value", 1, content) for name, content in references)
    return WriterSchema(1, SchemaLanguage.PROTOBUF, text, found)


def problem(schema: WriterSchema) -> str:
    """Why there is no such schema, in one line."""
    with pytest.raises(SchemaProblem) as caught:
        compile_schema(schema)
    assert str(caught.value).isprintable()
    return str(caught.value)


def test_imports_are_references_and_google_s_own_files() -> None:
    schema = schema_of(
        PROTO3 + 'import "shop/price.proto"; import "google/protobuf/timestamp.proto"; package p; '
        "message Order { shop.Price price = 1; google.protobuf.Timestamp at = 2; }",
        shop__unit=PROTO3 + "package shop; enum Unit { EUR = 0; }",
        shop__price=PROTO3 + 'import "shop/unit.proto"; package shop; message Price { Unit unit = 3; }',
    )
    order = message_named(schema, "p.Order")
    assert [(field.name, field.message) for field in order.fields] == [
        ("price", "shop.Price"),
        ("at", "google.protobuf.Timestamp"),
    ]
    (unit,) = message_named(schema, "shop.Price").fields
    assert unit.symbols
    assert (unit.symbols.names, unit.symbols.closed, unit.shown) == ({0: "EUR"}, False, "enum shop.Unit")


def test_files_that_confluent_never_registers_can_be_imported() -> None:
    schema = schema_of(
        PROTO3
        + 'import "confluent/meta.proto"; import "confluent/types/decimal.proto"; import "google/type/date.proto"; '
        'import "confluent/type/variant.proto"; option (confluent.file_meta).doc = "x"; '
        "message A { confluent.type.Decimal d = 1 [(confluent.field_meta).params = { key: 'precision', value: '4' }]; "
        "google.type.Date day = 2; confluent.type.Variant v = 3; }"
    )
    fields = {name: message_named(schema, name).fields for name in ("confluent.type.Decimal", "google.type.Date")}
    assert {name: [field.name for field in found] for name, found in fields.items()} == {
        "confluent.type.Decimal": ["value", "precision", "scale"],
        "google.type.Date": ["year", "month", "day"],
    }


@pytest.mark.parametrize("own", [meta_pb2, decimal_pb2, variant_pb2])
def test_confluent_s_files_are_as_its_client_has_them(own: Any) -> None:
    file = FileDescriptorProto.FromString(own.DESCRIPTOR.serialized_pb)
    known = known_files(["confluent/"])[file.name]
    *_, compiled = compile_proto(known, ()).file
    wanted, found = ([*map(str, (*each.message_type, *each.extension))] for each in (file, compiled))
    assert [re.sub(r" *json_name: .*\n", "", each) for each in found] == wanted


def test_two_versions_of_a_message_live_side_by_side() -> None:
    old, new = schema_of(PROTO3 + "message A { int32 x = 1; }"), schema_of(PROTO3 + "message A { string y = 1; }")
    assert [message_named(each, "A").fields[0].name for each in (old, new)] == ["x", "y"]


@pytest.mark.parametrize(
    ("text", "presence", "required", "closed"),
    [
        ('syntax = "proto2"; message A { optional int32 x = 1; optional E e = 2; } enum E { E0 = 1; }', True, False,
            True),
        ('syntax = "proto2"; message A { required int32 x = 1; optional E e = 2; } enum E { E0 = 1; }', True, True,
            True),
        (PROTO3 + "message A { int32 x = 1; E e = 2; } enum E { E0 = 0; }", False, False, False),
        (PROTO3 + "message A { optional int32 x = 1; E e = 2; } enum E { E0 = 0; }", True, False, False),
        ('edition = "2023"; message A { int32 x = 1; E e = 2; } enum E { E0 = 0; }', True, False, False),
        ('edition = "2023"; option features.enum_type = CLOSED; enum E { E0 = 1; } '
            "message A { int32 x = 1 [features.field_presence = LEGACY_REQUIRED]; E e = 2; }", *(True, True, True)),
    ],
)  # fmt: skip
def test_presence_and_enums_are_as_the_file_says(text: str, presence: bool, required: bool, closed: bool) -> None:
    x, e = message_named(schema_of(text), "A").fields
    assert e.symbols
    assert (x.presence, x.required, e.symbols.closed) == (presence, required, closed)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (PROTO3 + "message A { in32 x = 1; }", 'protoc refuses the schema: schema.proto:1:32: "in32" is not defined.'),
        (PROTO3 + 'import "nope.proto";', "protoc refuses the schema: nope.proto: File not found."),
        ('{"type": "record"}', "protoc refuses the schema: schema.proto:1:1: Expected top-level statement"),
        (PROTO3 + "message A {" * 50 + "}" * 50, "maximum recursion limit for nested messages"),
        (PROTO3 + "// \ud800", "expected a schema of whole characters, got a lone surrogate"),
        (NESTED_OPTION, "expected a schema that protoc compiles, it broke off with signal 6"),
        (PROTO3 + "//" + " " * 10_000_000,
            f"expected a schema of at most {MAX_BYTES} bytes with its references, got more"),
        (PROTO3 + "message A {" + "".join(f"int32 f{n} = {n};" for n in range(1, 18_000)) + "}",
            "the runtime of Protobuf refuses the schema"),
    ],
)  # fmt: skip
def test_what_is_no_schema_is_refused_in_one_line(text: str, says: str) -> None:
    start = time.monotonic()
    assert says in problem(writer(text))
    assert time.monotonic() - start < 5


ODD_NAMES = ["../x.proto", "/x.proto", "a/../../x.proto", "a//x.proto", "./x.proto", "a\\x.proto", "", "\0"]
WRONG_NAME = "expected the name of an imported file such as a/b.proto, got"


@pytest.mark.parametrize("name", [*ODD_NAMES, "\ud800.proto", "x" * 300, "é" * 150])
def test_references_stay_in_their_folder(name: str) -> None:
    assert problem(writer(PROTO3, (name, PROTO3))).startswith(WRONG_NAME)


def test_a_file_is_no_folder_of_another() -> None:
    for names in (("a", "a/b.proto"), ("a/b.proto", "a"), ("schema.proto", "_schema.proto/x.proto")):
        assert problem(writer(PROTO3, *((name, PROTO3) for name in names))).startswith(
            "expected the name of an imported"
        )


def test_imports_read_no_file_of_the_machine(tmp_path: Path) -> None:
    secret = tmp_path / "secret.proto"
    secret.write_text(PROTO3 + "message Secret {}")
    for path in (str(secret), "../" * 20 + str(secret).lstrip("/"), f"a/../..{secret}"):
        assert problem(writer(f'{PROTO3} import "{path}";')).startswith("protoc refuses the schema: ")


def test_references_replace_neither_google_s_files_nor_modules_of_python() -> None:
    schema = compile_schema(
        writer(
            PROTO3 + 'import "google/protobuf/timestamp.proto"; message A { google.protobuf.Timestamp at = 1; }',
            (
                "google/protobuf/timestamp.proto",
                PROTO3 + "package google.protobuf; message Timestamp { string x = 1; }",
            ),
            ("grpc_tools/__init__.py", "raise SystemExit(3)"),
            ("schema.proto", "this is not imported"),
        )
    )
    assert [field.name for field in message_named(schema, "google.protobuf.Timestamp").fields] == ["seconds", "nanos"]


def test_a_chain_of_hundreds_of_imports_is_taken() -> None:
    last = "message Last { string x = 1; }"
    chain = [(f"r{n}.proto", f'{PROTO3} import public "r{n + 1}.proto";') for n in range(500)]
    schema = compile_schema(
        writer(PROTO3 + 'import "r0.proto"; message A { Last x = 1; }', *chain, ("r500.proto", PROTO3 + last))
    )
    assert message_named(schema, "A").fields[0].message == "Last"


def test_a_message_that_the_schema_lacks_is_named() -> None:
    schema = schema_of(PROTO3 + "package p; message A {} message B {}")
    with pytest.raises(SchemaProblem, match=r"expected message C in the schema, which has p\.A, p\.B"):
        message_named(schema, "C")


@pytest.mark.parametrize(
    ("payload", "indexes", "rest"),
    [
        (b"\x00\x08", (0,), 1), (b"\x02\x00", (0,), 2), (b"\x02\x02\x08", (1,), 2), (b"\x04\x00\x06", (0, 3), 3),
        (b"\x02\x80\x01x", (64,), 3),
    ],
)  # fmt: skip
def test_message_indexes_are_read(payload: bytes, indexes: tuple[int, ...], rest: int) -> None:
    assert message_indexes(payload) == (indexes, rest)


@pytest.mark.parametrize(
    "payload",
    [b"", b"\x02", b"\x01", b"\x02\x01", b"\xca\x01" + b"\0" * 200, b"\x80" * 11, b"\x02" + b"\xff" * 9 + b"\x01"],
)
def test_what_are_no_message_indexes_is_refused(payload: bytes) -> None:
    with pytest.raises(Mismatch) as caught:
        message_indexes(payload)
    assert caught.value.code is Code.SYNTAX


NESTED = schema_of(
    PROTO3 + "message A { message B { message C {} } map<string, B> m = 1; message D {} message E {} } "
    "message F { message G {} map<string, G> m = 1; }"
)


@pytest.mark.parametrize(
    ("indexes", "name"),
    [((0,), "A"), ((1,), "F"), ((0, 0), "A.B"), ((0, 0, 0), "A.B.C"), ((0, 3), "A.E"), ((1, 0), "F.G")],
)
def test_indexes_lead_to_a_message(indexes: tuple[int, ...], name: str) -> None:
    assert message_at(NESTED, indexes).full_name == name


@pytest.mark.parametrize("indexes", [(2,), (0, 4), (1, 1), (0, 0, 0, 0)])
def test_indexes_that_lead_nowhere_are_refused(indexes: tuple[int, ...]) -> None:
    with pytest.raises(Mismatch, match="which fit none"):
        message_at(NESTED, indexes)


def test_indexes_that_serializers_count_differently_are_refused() -> None:
    with pytest.raises(Mismatch, match=r"got \[0, 2\], which fit A\.D and A\.E"):
        message_at(NESTED, (0, 2))
