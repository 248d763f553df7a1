#!/usr/bin/env bash
# Guess: an Avro schema that recap has read and written again keeps timestamp-micros, decimals and defaults.
# Version: recap-core 0.14.0, fastavro 1.13.1
# Behaviour: it writes the attributes of a type beside the field's name, where Avro looks for none: what was a timestamp is a number, a decimal is bytes, and
#   an enum or a map is the name of an unknown type. A fixed becomes bytes, which are written in another way. local-timestamp-micros raises.
# Seen: {"name": "at", "type": "long", "logicalType": "timestamp-micros"}, which reads 2024-01-01 as 1704067200000000
set -euo pipefail
tmp=$(mktemp -d); chmod 755 "$tmp"; trap 'rm -rf "$tmp"' EXIT; export TMPDIR="$tmp"
${PYTHON:-python3.11} -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check recap-core==0.14.0 fastavro==1.13.1
"$tmp/venv/bin/python" -W ignore - <<'P'
import io
import json
from datetime import UTC, datetime
from decimal import Decimal

import fastavro
from recap.converters.avro import AvroConverter

def again(**types):
    fields = [{"name": name, "type": type_} for name, type_ in types.items()]
    first = {"type": "record", "name": "order", "fields": fields}
    second = AvroConverter().from_recap(AvroConverter().to_recap(json.dumps(first)))
    return fastavro.parse_schema(first), second if isinstance(second, dict) else json.loads(second)

before, after = again(
    at={"type": "long", "logicalType": "timestamp-micros"},
    price={"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
)
buffer = io.BytesIO()
fastavro.schemaless_writer(buffer, before, {"at": datetime(2024, 1, 1, tzinfo=UTC), "price": Decimal("1.10")})
buffer.seek(0)
seen = fastavro.schemaless_reader(buffer, fastavro.parse_schema(after))
assert seen == {"at": 1704067200000000, "price": b"n"}, f"recap-avro-logical-type: {seen}"
_, after = again(tags={"type": "map", "values": "string"})
try:
    raise SystemExit(f"recap-avro-logical-type: {fastavro.parse_schema(after)}")
except fastavro.schema.UnknownType:
    pass
P
echo "ok recap-avro-logical-type: recap-core 0.14.0 makes a plain number of a timestamp, and bytes of a decimal"
