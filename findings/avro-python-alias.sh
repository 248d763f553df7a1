#!/usr/bin/env bash
# Guess: Avro's Python library resolves schemas as Java's does: a field's alias finds the writer's field, the default of bytes is one byte for each
#   character.
# Version: avro 1.12.2
# Behaviour: an alias is ignored, so that the field silently has the reader's default; the default of bytes is encoded in UTF-8.
# Seen: 5 written as a, read as b with the alias a -> 0; default "\u00ff" -> two bytes, c3 bf
set -euo pipefail
tmp=$(mktemp -d); chmod 755 "$tmp"; trap 'rm -rf "$tmp"' EXIT; export TMPDIR="$tmp"
${PYTHON:-python3.11} -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check avro==1.12.2
"$tmp/venv/bin/python" -W ignore - <<'P'
import io
import json

import avro.io
import avro.schema

def schema(*fields):
    return avro.schema.parse(json.dumps({"type": "record", "name": "order", "fields": fields}))

def read(written, value, reader):
    out = io.BytesIO()
    avro.io.DatumWriter(written).write(value, avro.io.BinaryEncoder(out))
    return avro.io.DatumReader(written, reader).read(avro.io.BinaryDecoder(io.BytesIO(out.getvalue())))

written = schema({"name": "a", "type": "int"})
seen = read(written, {"a": 5}, schema({"name": "b", "type": "int", "aliases": ["a"], "default": 0}))
assert seen == {"b": 0}, f"avro-python-alias: {seen}"
seen = read(written, {"a": 5}, schema({"name": "c", "type": "bytes", "default": "\u00ff"}))
assert seen == {"c": b"\xc3\xbf"}, f"avro-python-alias: {seen}"
P
echo "ok avro-python-alias: avro 1.12.2 ignores a field's alias and gives the default"
