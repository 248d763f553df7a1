"""A .proto text with all that it imports -> descriptors, by protoc."""

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.resources import files
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.message import DecodeError

from offset_ledger.decoding.outcome import printable
from offset_ledger.decoding.typed.types import SchemaProblem
from offset_ledger.model.writer_schema import SchemaReference

MAX_BYTES = 4 * 1024 * 1024
TIMEOUT = 30.0
SHIPPED = "google/protobuf/"
"""The files that come with protoc, the well-known types among them; no reference takes their place."""
_MAX_NAME = 200
_NOISE = re.compile(r": warning: |^WARNING: |^[IWEF][0-9]{4} ")  # warnings, and the form of absl's log


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
