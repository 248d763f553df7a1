"""The messages of a .proto schema as values of our own, compiled by protoc, and Confluent's indexes, which name one."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib.resources import files
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from offset_ledger.decoding.outcome import Code, Mismatch, SchemaProblem, printable
from offset_ledger.decoding.protobuf.wire import ENUM_READ, SCALARS, Scalar, Wire, varint
from offset_ledger.decoding.typed.decoder import Malformed
from offset_ledger.decoding.typed.types import TypeName, ValueType
from offset_ledger.model.writer_schema import SchemaReference, WriterSchema

MAX_BYTES = 4 * 1024 * 1024
TIMEOUT = 30.0
SHIPPED = "google/protobuf/"
"""The files that come with protoc, the well-known types among them; no reference takes their place."""
_MAX_NAME = 200
_NOISE = re.compile(r": warning: |^WARNING: |^[IWEF][0-9]{4} ")  # warnings, and the form of absl's log
_SCALAR_NAMES = {getattr(FieldDescriptor, f"TYPE_{name.upper()}"): name for name in SCALARS}


@dataclass(frozen=True, slots=True)
class Symbols:
    """The symbols of an enum by number, the first where several share one; a closed enum has no other numbers."""

    names: Mapping[int, str]
    closed: bool


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message; its values are those of ``scalar`` or of ``message``.

    ``peers`` are the numbers of the other fields of its oneof, ``well_known`` is the message if it is one of Google's.
    """

    number: int
    name: str
    scalar: Scalar | None
    message: str | None = None
    well_known: str | None = None
    symbols: Symbols | None = None
    group: bool = False
    repeated: bool = False
    map: bool = False
    presence: bool = False
    required: bool = False
    peers: tuple[int, ...] = ()

    @property
    def shown(self) -> str:
        """Return how the schema calls the type of one value."""
        return self.scalar.type.shown if self.scalar else str(self.message)

    @property
    def tag(self) -> int:
        """Return the tag of a value that stands by itself."""
        wire = self.scalar.wire if self.scalar else Wire.SGROUP if self.group else Wire.LEN
        return self.number << 3 | wire


@dataclass(frozen=True)
class Message:
    """A message type with its fields, in the order of their numbers; the entry of a map is one too."""

    full_name: str
    fields: tuple[Field, ...]
    is_entry: bool = False

    @cached_property
    def by_name(self) -> Mapping[str, Field]:
        """The fields by the names of the .proto file."""
        return {field.name: field for field in self.fields}

    @cached_property
    def by_number(self) -> Mapping[int, Field]:
        """The fields by number."""
        return {field.number: field for field in self.fields}


class ProtobufSchema:
    """The messages of one writer's schema, in a pool of its own: versions of a message live side by side.

    The last of the files is the schema's own, and each import stands before those that need it.
    """

    def __init__(self, files: Sequence[FileDescriptorProto]) -> None:
        self._pool = DescriptorPool()
        self._messages: dict[str, Message] = {}
        try:
            *_, self.file = [self._pool.AddSerializedFile(file.SerializeToString()) for file in files]
        except (TypeError, ValueError) as error:
            raise SchemaProblem(f"the runtime of Protobuf refuses the schema: {error}") from None

    def message(self, full_name: str) -> Message:
        """Return a message of the schema or of its imports; KeyError if there is none of this name."""
        if full_name not in self._messages:
            descriptor = self._pool.FindMessageTypeByName(full_name)
            fields = sorted((_field(each) for each in descriptor.fields), key=lambda field: field.number)
            self._messages[full_name] = Message(full_name, tuple(fields), is_entry(descriptor))
        return self._messages[full_name]

    @property
    def message_names(self) -> tuple[str, ...]:
        """The full names of the file's own messages, each before those within it."""
        pending, names = [*self.file.message_types_by_name.values()], list[str]()
        while pending:
            message = pending.pop(0)
            names.append(message.full_name)
            pending[:0] = [each for each in message.nested_types if not is_entry(each)]
        return tuple(names)

    def has_required(self, full_name: str) -> bool:
        """Return whether the message, or one that it can hold, has a required field."""
        seen, pending = {full_name}, [full_name]
        while pending:
            message = self.message(pending.pop())
            if any(field.required for field in message.fields):
                return True
            unseen = {field.message for field in message.fields if field.message} - seen
            seen |= unseen
            pending += unseen
        return False


def compile_schema(schema: WriterSchema) -> ProtobufSchema:
    """The messages of a writer's schema; the same object for the same text, while many are in use.

    Raises:
        SchemaProblem: it is no schema that protoc takes.
    """
    return _compile(schema.text, schema.references)


@lru_cache(maxsize=256)
def _compile(text: str, references: tuple[SchemaReference, ...]) -> ProtobufSchema:
    return ProtobufSchema(compile_proto(text, references).file)


def message_named(schema: ProtobufSchema, full_name: str) -> Message:
    """The message of this full name.

    Raises:
        SchemaProblem: there is none.
    """
    try:
        return schema.message(full_name)
    except KeyError:
        names = ", ".join(each.full_name for each in schema.file.message_types_by_name.values())
        raise SchemaProblem(f"expected message {full_name} in the schema, which has {names or 'none'}") from None


def is_entry(message: Descriptor) -> bool:
    """Return whether it is the message of a map's entries."""
    return message.GetOptions().map_entry


def _field(descriptor: FieldDescriptor) -> Field:
    oneof = descriptor.containing_oneof
    field = Field(
        descriptor.number,
        descriptor.name,
        scalar=None,
        repeated=descriptor.is_repeated,
        presence=descriptor.has_presence,
        required=descriptor.is_required,
        peers=tuple(each.number for each in oneof.fields if each.number != descriptor.number) if oneof else (),
    )
    if enum := descriptor.enum_type:
        names: dict[int, str] = {}
        for value in enum.values:
            names.setdefault(value.number, value.name)
        type_ = ValueType(TypeName.TEXT, f"enum {enum.full_name}")
        scalar = Scalar(type_, Wire.VARINT, enum.values[0].number, ENUM_READ)
        return replace(field, scalar=scalar, symbols=Symbols(names, enum.is_closed))
    if message := descriptor.message_type:
        field = replace(field, message=message.full_name, map=field.repeated and is_entry(message))
        well_known = message.full_name if message.file.name.startswith(SHIPPED) else None
        return replace(field, group=descriptor.type == FieldDescriptor.TYPE_GROUP, well_known=well_known)
    return replace(field, scalar=SCALARS[_SCALAR_NAMES[descriptor.type]])


MAX_INDEXES = 100
FIRST = (0,)
_MAX_INDEX = 2**31 - 1


def message_indexes(payload: bytes) -> tuple[tuple[int, ...], int]:
    """The indexes at the beginning of a payload, the outermost message first, and where the message begins.

    Raises:
        Mismatch: the payload does not begin with message indexes.
    """
    try:
        count, at = _zigzag(payload, 0)
        if not 0 <= count <= MAX_INDEXES:
            raise Mismatch(Code.SYNTAX, f"expected 0 to {MAX_INDEXES} message indexes, got {count}")
        indexes = []
        for _ in range(count):
            index, at = _zigzag(payload, at)
            indexes.append(index)
    except Malformed as malformed:
        raise Mismatch(Code.SYNTAX, f"expected message indexes: {malformed.detail}") from None
    if any(not 0 <= index <= _MAX_INDEX for index in indexes):
        raise Mismatch(Code.SYNTAX, f"expected message indexes of 31 bits, got {indexes}")
    return tuple(indexes) or FIRST, at


def message_at(schema: ProtobufSchema, indexes: Sequence[int]) -> Message:
    """The message that Confluent's message indexes name.

    Some serializers count the entry of a map as a nested message, others do not; where both ways lead to a message,
    nothing says which one was meant.

    Raises:
        Mismatch: there is no such message, or there are two.
    """
    first, *rest = indexes
    top = [*schema.file.message_types_by_name.values()]
    full_names = set[str]()
    for with_entries in (True, False):
        types = top[first : first + 1]
        for index in rest:
            inner = [each for at in types for each in at.nested_types if with_entries or not is_entry(each)]
            types = inner[index : index + 1]
        full_names |= {each.full_name for each in types if not is_entry(each)}
    if len(full_names) != 1:
        names = " and ".join(sorted(full_names)) or "none"
        raise Mismatch(Code.SYNTAX, f"expected the indexes of one message, got {[*indexes]}, which fit {names}")
    return schema.message(full_names.pop())


def message_reader(schema: ProtobufSchema) -> Callable[[bytes], tuple[str, int]]:
    """Return the reader of the full name of a payload's message, and of where it begins; it raises Mismatch."""

    def read(payload: bytes) -> tuple[str, int]:
        indexes, at = message_indexes(payload)
        return message_at(schema, indexes).full_name, at

    return read


def _zigzag(payload: bytes, at: int) -> tuple[int, int]:
    value, at = varint(payload, at, len(payload))
    return (value >> 1) ^ -(value & 1), at


def compile_proto(text: str, references: tuple[SchemaReference, ...]) -> FileDescriptorSet:
    """The files of a schema, each import before those that need it; the schema's own is the last.

    protoc runs as a process of its own: some texts that people could register abort it.

    Raises:
        SchemaProblem: protoc refuses the text, or it is too large.
    """
    named = {reference.name: reference.text for reference in references}
    files = {**known_files([text, *named.values()]), **named}
    main = "schema.proto"
    while main in files:
        main = "_" + main
    with TemporaryDirectory(prefix="offset-ledger-") as folder:
        for name, content in _checked({**files, main: text}):
            path = Path(folder, "files", name)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            except (FileExistsError, NotADirectoryError, IsADirectoryError):  # a folder is another file's name
                raise _wrong_name(name) from None
        _run(folder, main)
        try:
            return FileDescriptorSet.FromString(Path(folder, "descriptors").read_bytes())
        except DecodeError:
            raise SchemaProblem(
                "expected descriptors from protoc, got something else: are the messages too deep?"
            ) from None


def _checked(files: dict[str, str]) -> Iterator[tuple[str, bytes]]:
    """The files to write, by names that stay in their folder."""
    left = MAX_BYTES
    for name, text in files.items():
        path = PurePosixPath(name)
        outside = path.is_absolute() or ".." in path.parts or str(path) != name
        if outside or len(name.encode(errors="replace")) > _MAX_NAME or not name.isprintable() or "\\" in name:
            raise _wrong_name(name)
        try:
            content = text.encode()
        except UnicodeEncodeError:
            raise SchemaProblem("expected a schema of whole characters, got a lone surrogate") from None
        left -= len(content)
        if left < 0:
            raise SchemaProblem(f"expected a schema of at most {MAX_BYTES} bytes with its references, got more")
        if not name.startswith(SHIPPED):
            yield name, content


def _wrong_name(name: str) -> SchemaProblem:
    return SchemaProblem(f"expected the name of an imported file such as a/b.proto, got '{printable(name)}'")


def _run(folder: str, main: str) -> None:
    # -P: else Python would look for its modules among the references.
    command = [sys.executable, "-P", "-m", "grpc_tools.protoc", f"-I{folder}/files", "--include_imports"]
    command += [f"--descriptor_set_out={folder}/descriptors", main]
    try:
        done = subprocess.run(command, capture_output=True, timeout=TIMEOUT, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise SchemaProblem(f"expected a schema that protoc compiles in {TIMEOUT:.0f} seconds") from None
    if done.returncode < 0:
        raise SchemaProblem(f"expected a schema that protoc compiles, it broke off with signal {-done.returncode}")
    if done.returncode:
        output = done.stderr.decode(errors="replace").replace(f"{folder}/files/", "")
        error = next((line for line in output.splitlines() if not _NOISE.search(line)), "it does not say why")
        raise SchemaProblem(f"protoc refuses the schema: {printable(error, 300)}")


_HEAD = 'syntax = "proto3"; package'
_META = f"""{_HEAD} confluent;
import "google/protobuf/descriptor.proto";
message Meta {{ string doc = 1; map<string, string> params = 2; repeated string tags = 3; repeated Rule rules = 4; }}
message Rule {{ string name = 1; string doc = 2; string expr = 3; string sql = 4; }}
extend google.protobuf.FileOptions {{ Meta file_meta = 1088; }}
extend google.protobuf.MessageOptions {{ Meta message_meta = 1088; }}
extend google.protobuf.FieldOptions {{ Meta field_meta = 1088; }}
extend google.protobuf.EnumOptions {{ Meta enum_meta = 1088; }}
extend google.protobuf.EnumValueOptions {{ Meta enum_value_meta = 1088; }}
"""
_CONFLUENT = {
    "confluent/meta.proto": _META,
    "confluent/type/decimal.proto": (
        f"{_HEAD} confluent.type; message Decimal {{ bytes value = 1; uint32 precision = 2; int32 scale = 3; }}"
    ),
    "confluent/type/variant.proto": (
        f"{_HEAD} confluent.type; message Variant {{ bytes metadata = 1; bytes value = 2; }}"
    ),
    "confluent/types/decimal.proto": 'syntax = "proto3"; import public "confluent/type/decimal.proto";',
}
_GOOGLE_TYPES = "google/type/"


def known_files(texts: Iterable[str]) -> Mapping[str, str]:
    """The files that one of the texts may import, by name; google/type/ where googleapis-common-protos is installed."""
    whole = "\n".join(texts)
    known = dict(_CONFLUENT) if "confluent/" in whole else {}
    if _GOOGLE_TYPES in whole:
        with suppress(ModuleNotFoundError):
            proto_files = [each for each in files("google.type").iterdir() if each.name.endswith(".proto")]
            known |= {_GOOGLE_TYPES + each.name: each.read_text() for each in proto_files}
    return known
