"""The serializer of a schema that a registry has, or gets, and the codecs of Avro and of JSON Schema."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
from fastavro import schemaless_reader

from offset_ledger.config.source import SubjectStrategy
from offset_ledger.decoding.json_schema.decoder import schema_validator
from offset_ledger.decoding.subjects import record_names
from offset_ledger.decoding.typed.types import SchemaProblem
from offset_ledger.errors import ConfigurationError, RegistryUnavailable, error_line
from offset_ledger.extras import require
from offset_ledger.model.writer_schema import SchemaLanguage, WriterSchema
from offset_ledger.reliability.publishing.formats.avro import AvroType, avro_writer, parse_avro
from offset_ledger.reliability.publishing.formats.exact import Cell, Misfit, refuse
from offset_ledger.reliability.publishing.formats.framing import Codec, Unreadable, framed
from offset_ledger.reliability.publishing.serializers import SchemaSerializer
from offset_ledger.schema_registry.client import Reference, Registry

LANGUAGES: Mapping[str, SchemaLanguage] = {
    "avro": SchemaLanguage.AVRO,
    "protobuf": SchemaLanguage.PROTOBUF,
    "json_schema": SchemaLanguage.JSON,
}
_EXTRAS = {SchemaLanguage.AVRO: "avro", SchemaLanguage.PROTOBUF: "protobuf", SchemaLanguage.JSON: "json-schema"}


@dataclass(frozen=True, slots=True)
class SchemaChoice:
    """Which schema the values, or the keys, of a topic have; without a file the latest of the subject ``topic``-value.

    ``side`` is value or key, ``name`` one of LANGUAGES, ``message`` the full name of a Protobuf message. A file may
    refer to other schemas by the names of ``references``.
    """

    topic: str
    side: str
    name: str
    file: Path | None
    message: str | None = None
    subject: SubjectStrategy = SubjectStrategy.TOPIC
    register: bool = False
    references: tuple[Reference, ...] = ()


def find_serializer(choice: SchemaChoice, registry: Registry) -> SchemaSerializer:
    """The serializer of the chosen schema, as the registry has it.

    Raises:
        ConfigurationError: the file is no schema, or the registry does not have it and it is not to be registered.
        SchemaRejected, RegistryUnavailable, AccessDenied, UnusableSchema: as the registry's client.
    """
    language = LANGUAGES[choice.name]
    require(_EXTRAS[language], f"a schema in {choice.name}")
    schema = _latest(choice, registry) if choice.file is None else _of_file(choice, choice.file, registry)
    if schema.language is not language:
        raise ConfigurationError(
            f"the latest schema of {choice.topic}-{choice.side} should be {language}, and is {schema.language}"
        )
    _check_root(schema)
    return framed(choice.name, schema, compile_codec(schema, choice.message))


def compile_codec(schema: WriterSchema, message: str | None = None) -> Codec:
    """What writes and reads documents of a schema, in whichever language it is.

    Raises:
        ConfigurationError: it is no schema of its language, or lacks the message.
    """
    if schema.language is SchemaLanguage.AVRO:
        return avro_codec(schema)
    if schema.language is SchemaLanguage.PROTOBUF:
        from offset_ledger.reliability.publishing.formats.protobuf_codec import protobuf_codec

        return protobuf_codec(schema, message)

    return json_codec(schema)


def _check_root(schema: WriterSchema) -> None:
    """Of Confluent's own clients, Java's writes bytes that are the whole value without their length, Python's with."""
    if schema.language is SchemaLanguage.AVRO:
        root = msgspec.json.decode(schema.text)
        if root == "bytes" or (isinstance(root, dict) and root.get("type") == "bytes"):
            raise ConfigurationError(
                f"the schema {schema.schema_id} is bytes alone, which clients write in two ways; make it a record"
            )


def _latest(choice: SchemaChoice, registry: Registry) -> WriterSchema:
    option = "--schema" if choice.side == "value" else "--key-schema"
    if choice.subject is not SubjectStrategy.TOPIC or choice.register:
        raise ConfigurationError(
            f"without {option} there is nothing to register, and no record whose name is a subject; add {option} FILE"
        )
    schema = registry.latest(f"{choice.topic}-{choice.side}")
    if schema is None:
        raise ConfigurationError(
            f"the registry has no schema under {choice.topic}-{choice.side}; add {option} FILE and --register"
        )
    return schema


def _of_file(choice: SchemaChoice, file: Path, registry: Registry) -> WriterSchema:
    """The schema of a file as the registry has it: readers read the bytes by that text."""
    text = _text(file)
    given = WriterSchema(0, LANGUAGES[choice.name], text, registry.resolved(choice.references))
    try:
        compile_codec(given, choice.message)
        subject = _subject(choice, given)
    except (ConfigurationError, SchemaProblem) as error:
        raise ConfigurationError(f"{file}: {error}") from None
    ask = registry.register if choice.register else registry.registered
    schema_id = ask(subject, given.language, text, choice.references)
    if schema_id is None:
        raise ConfigurationError(
            f"the registry does not have the schema of {file} under {subject}; add --register to register it"
        )
    schema = registry.schema(schema_id)
    if schema is None:
        raise RegistryUnavailable(f"the schema registry gave the id {schema_id} for {subject} and does not know it yet")
    return schema


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{file} is not UTF-8; give the text of a schema: .avsc, .proto or .json") from None


def _subject(choice: SchemaChoice, schema: WriterSchema) -> str:
    if choice.subject is SubjectStrategy.TOPIC:
        return f"{choice.topic}-{choice.side}"
    name = _record_name(choice, schema)
    return name if choice.subject is SubjectStrategy.RECORD else f"{choice.topic}-{name}"


def _record_name(choice: SchemaChoice, schema: WriterSchema) -> str:
    if schema.language is not SchemaLanguage.PROTOBUF:
        (name,) = record_names(schema)
        return name
    from offset_ledger.reliability.publishing.formats.protobuf_codec import message_name

    return message_name(schema, choice.message)


_TEXTS = {"string", "bytes", "enum", "fixed"}


def avro_codec(schema: WriterSchema) -> Codec:
    """Compile it.

    Raises:
        ConfigurationError: it is no schema of Avro.
    """
    type_ = parse_avro(schema)
    record = type_.record
    fields = record["fields"] if record else ()
    cells = {each["name"]: _cell(type_, each["type"]) for each in fields}
    return Codec(avro_writer(type_), _reader(type_), cells=cells, cell=_cell(type_, type_.root))


def _reader(type_: AvroType) -> Any:
    def read(data: bytes) -> Any:
        file = BytesIO(data)
        try:
            value = schemaless_reader(file, type_.root, None)
        except Exception as error:  # noqa: BLE001 - EOFError, IndexError and others, by what is wrong with the bytes
            raise Unreadable(f"expected a value of the schema ({error_line(error)})") from None
        if left := len(data) - file.tell():
            raise Unreadable(f"expected a value of the schema, found {left} bytes after it")
        return value

    return read


def _cell(type_: AvroType, said: Any) -> Cell:
    branches = [*_branches(type_.named, said)]
    kinds = {each["type"] for each in branches}
    logical = {str(each.get("logicalType")) for each in branches}
    return Cell(
        text=any(each["type"] in _TEXTS and each.get("logicalType") != "decimal" for each in branches),
        null="null" in kinds,
        string="string" in kinds,
        moment="long" in kinds and any(name.startswith("timestamp-") for name in logical),
    )


def _branches(named: Mapping[str, Any], said: Any) -> Iterator[Mapping[str, Any]]:
    """The type, or those of a union, each as a mapping."""
    if isinstance(said, list):
        for each in said:
            yield from _branches(named, each)
    elif isinstance(said, str):
        yield named.get(said) or {"type": said}
    elif isinstance(said["type"], str):
        yield named.get(said["type"], said)
    else:
        yield from _branches(named, said["type"])


_encode = msgspec.json.Encoder(decimal_format="number").encode
_decode = msgspec.json.Decoder(float_hook=Decimal).decode
_LARGE = 2**63


def json_codec(schema: WriterSchema) -> Codec:
    """Compile it.

    Raises:
        ConfigurationError: it is no JSON Schema.
    """
    try:
        valid = schema_validator(schema)
    except SchemaProblem as problem:
        raise ConfigurationError(f"{problem}; correct it") from None

    def write(value: Any) -> bytes:
        data = _written(value)
        check(_decode(data))
        return data

    def check(document: Any) -> None:
        for error in valid.iter_errors(document):
            misfit = Misfit(str(error.message))
            misfit.steps = [*reversed(error.instance_path)]
            raise misfit

    def read(data: bytes) -> Any:
        try:
            document = _decode(data)
            check(document)
        except (msgspec.DecodeError, UnicodeDecodeError, ArithmeticError, Misfit) as error:
            raise Unreadable(str(error)) from None
        return document

    return Codec(write, read, cells=_cells(schema))


def _written(value: Any) -> bytes:
    try:
        return _encode(_exact(value))
    except (TypeError, ValueError, OverflowError) as error:
        raise Misfit(f"expected what JSON can say: {error}") from None


def _exact(value: Any) -> Any:
    """The value as msgspec writes it without changing it: it makes null of NaN, and has no integer beyond 64 bits."""
    if isinstance(value, Mapping):
        return {name: _exact(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_exact(each) for each in value]
    if isinstance(value, float | Decimal) and not math.isfinite(value):
        refuse("a number of JSON", value)
    return Decimal(value) if type(value) is int and not -_LARGE <= value < _LARGE else value


def _cells(schema: WriterSchema) -> dict[str, Cell]:
    """Fields stay texts; a stamp goes into a property that may be one."""
    root = msgspec.json.decode(schema.text)
    properties = root.get("properties") if isinstance(root, dict) else None
    if not isinstance(properties, dict):
        return {}
    return {name: Cell(string=_takes_texts(said)) for name, said in properties.items()}


def _takes_texts(said: Any) -> bool:
    kinds = said.get("type", "string") if isinstance(said, dict) else "string"
    return kinds == "string" or (isinstance(kinds, list) and "string" in kinds)
