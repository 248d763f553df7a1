"""Files that Confluent's serializers take for known: a registry has no reference for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.resources import files

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
    return {**known, **_google_types()} if _GOOGLE_TYPES in whole else known


def _google_types() -> dict[str, str]:
    try:
        proto_files = [each for each in files("google.type").iterdir() if each.name.endswith(".proto")]
    except ModuleNotFoundError:
        return {}
    return {_GOOGLE_TYPES + each.name: each.read_text() for each in proto_files}
