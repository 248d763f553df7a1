#!/usr/bin/env bash
# Guess: fastavro accepts a schema whose decimal has a larger scale than precision, and uses it; Java Avro reads its bytes without the logical type.
# Version: fastavro 1.13.1 (compared by hand with org.apache.avro:avro 1.12.0)
# Behaviour: Avro's specification has invalid logical types ignored, and Java does that: it gives the bytes. fastavro refuses the whole schema, so that no
#   field of such a topic can be read. Another invalid annotation, a decimal on a string, it does ignore.
# Seen: precision 4, scale 6 -> SchemaParseException "decimal scale must be less than or equal to the precision of 4"; decimal on string -> "text"
set -euo pipefail
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
${PYTHON:-python3.11} -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check fastavro==1.13.1
"$tmp/venv/bin/python" - <<'E'
from io import BytesIO

import fastavro
from fastavro.schema import SchemaParseException

def read(kind, value):
    schema = fastavro.parse_schema({"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]})
    fastavro.schemaless_writer(file := BytesIO(), schema, {"a": value})
    file.seek(0)
    return fastavro.schemaless_reader(file, schema)["a"]

assert read({"type": "string", "logicalType": "decimal", "precision": 4, "scale": 2}, "text") == "text"
try:
    read({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 6}, b"\1")
except SchemaParseException as error:
    assert "scale must be less than or equal to the precision" in str(error), error
else:
    raise SystemExit("fastavro-decimal-scale: the schema is accepted now")
E
echo "ok fastavro-decimal-scale: fastavro 1.13.1 refuses a schema with a decimal of scale 6 and precision 4, which Avro's specification has ignored"
