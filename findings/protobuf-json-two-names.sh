#!/usr/bin/env bash
# Guess: protobuf's json_format refuses an object that gives one field twice, by its JSON name and by its name in the .proto file, as it refuses a name
#   that occurs twice.
# Version: protobuf 7.36.2 (Python)
# Behaviour: it accepts the object, and the name that comes last wins. Only one and the same text counts as twice.
# Seen: {"jsonName": "a", "json_name": "b"} -> b; {"json_name": "b", "jsonName": "a"} -> a; {"name": "a", "name": "b"} -> ParseError
set -euo pipefail
tmp=$(mktemp -d); chmod 755 "$tmp"; trap 'rm -rf "$tmp"' EXIT
${PYTHON:-python3.11} -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check protobuf==7.36.2
"$tmp/venv/bin/python" - <<'E'
from google.protobuf import json_format
from google.protobuf.descriptor_pb2 import FieldDescriptorProto

def read(text):
    return json_format.Parse(text, FieldDescriptorProto())

assert read('{"jsonName": "a", "json_name": "b"}').json_name == "b"
assert read('{"json_name": "b", "jsonName": "a"}').json_name == "a"
try:
    read('{"name": "a", "name": "b"}')
except json_format.ParseError:
    pass
else:
    raise SystemExit("protobuf-json-two-names: a name that occurs twice is accepted now")
E
echo "ok protobuf-json-two-names: json_format 7.36.2 takes jsonName and json_name in one object, the last wins"
