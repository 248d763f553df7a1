"""The serializer of a schema that a registry has, or gets."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from offset_ledger.base.extras import require
from offset_ledger.decoding.outcome import SchemaProblem
from offset_ledger.decoding.subjects import record_names
from offset_ledger.decoding.wire_format import KEY_HEADER, VALUE_HEADER
from offset_ledger.errors import ConfigurationError, RegistryUnavailable
from offset_ledger.model.writer_schema import SchemaLanguage, WriterSchema
from offset_ledger.outside.schema_registry.client import Reference, Registry
from offset_ledger.pipeline_file.source import SubjectStrategy
from offset_ledger_kit.publishing.formats.avro import AvroCodec
from offset_ledger_kit.publishing.formats.framing import Codec, framed
from offset_ledger_kit.publishing.formats.json_schema import JsonCodec
from offset_ledger_kit.publishing.serializers import SchemaSerializer

LANGUAGES: Mapping[str, SchemaLanguage] = {
    "avro": SchemaLanguage.AVRO,
    "protobuf": SchemaLanguage.PROTOBUF,
    "json_schema": SchemaLanguage.JSON,
}


@dataclass(frozen=True, slots=True)
class SchemaChoice:
    """The schema of the values, or the keys, of a topic; without a file the latest of the subject ``topic``-value.

    ``side`` is value or key, ``name`` one of LANGUAGES, ``message`` the full name of a Protobuf message. A file may
    refer to other schemas by the names of ``references``. ``in_header``: a header names the schema, and no frame.
    """

    topic: str
    side: str
    name: str
    file: Path | None
    message: str | None = None
    subject: SubjectStrategy = SubjectStrategy.TOPIC
    register: bool = False
    references: tuple[Reference, ...] = ()
    in_header: bool = False


def find_serializer(choice: SchemaChoice, registry: Registry) -> SchemaSerializer:
    """The serializer of the chosen schema, as the registry has it.

    Raises:
        ConfigurationError: the file is no schema, or the registry does not have it and it is not to be registered.
        SchemaRejected, RegistryUnavailable, AccessDenied, UnusableSchema: as the registry's client.
    """
    language = LANGUAGES[choice.name]
    require(choice.name.replace("_", "-"), f"a schema in {choice.name}")
    schema = _latest(choice, registry) if choice.file is None else _of_file(choice, choice.file, registry)
    if schema.language is not language:
        raise ConfigurationError(
            f"the latest schema of {choice.topic}-{choice.side} should be {language}, and is {schema.language}"
        )
    root = msgspec.json.decode(schema.text) if language is SchemaLanguage.AVRO else None
    if root == "bytes" or (isinstance(root, dict) and root.get("type") == "bytes"):
        # Of Confluent's own clients, Java's writes the whole value without its length, Python's with it.
        raise ConfigurationError(
            f"the schema {schema.schema_id} is bytes alone, which clients write in two ways; make it a record"
        )
    header = {"key": KEY_HEADER, "value": VALUE_HEADER}[choice.side] if choice.in_header else None
    return framed(choice.name, schema, compile_codec(schema, choice.message), header)


def compile_codec(schema: WriterSchema, message: str | None = None) -> Codec:
    """Return the codec of a schema, in whichever language it is.

    Raises:
        ConfigurationError: it is no schema of its language, or lacks the message.
    """
    if schema.language is SchemaLanguage.AVRO:
        return AvroCodec(schema)
    if schema.language is SchemaLanguage.PROTOBUF:
        from offset_ledger_kit.publishing.formats.protobuf_codec import ProtobufCodec

        return ProtobufCodec(schema, message)
    return JsonCodec(schema)


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
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{file} is not UTF-8; give the text of a schema: .avsc, .proto or .json") from None
    given = WriterSchema(0, LANGUAGES[choice.name], text, registry.resolved(choice.references))
    subject = f"{choice.topic}-{choice.side}"
    try:
        codec = compile_codec(given, choice.message)
        if choice.subject is not SubjectStrategy.TOPIC:
            name = codec.message or next(iter(record_names(given)))
            subject = name if choice.subject is SubjectStrategy.RECORD else f"{choice.topic}-{name}"
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
