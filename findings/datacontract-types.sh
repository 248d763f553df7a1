#!/usr/bin/env bash
# Guess: Postgres' DDL and an Avro schema that datacontract-cli has imported and exported again keep their types; Avro keeps decimal, timestamp-micros, enum, map and
#   defaults.
# Version: datacontract-cli 1.2.8, avro 1.12.2
# Behaviour: a timestamp without time zone comes back with one, and varchar(20) as text, although the contract holds both. Avro loses the logical types but
#   date, the values of a map and the default of an enum; bytes become an array of strings.
# Seen: timestamp -> timestamptz, timestamp(3) -> timestamptz(3); {"type": "long", "logicalType": "timestamp-micros"} -> "long"; "bytes" -> array of strings
set -euo pipefail
tmp=$(mktemp -d); chmod 755 "$tmp"; trap 'rm -rf "$tmp"' EXIT; export TMPDIR="$tmp"
${PYTHON:-python3.11} -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check "datacontract-cli[avro]==1.2.8" avro==1.12.2
cd "$tmp"
cat > order.sql <<'P'
CREATE TABLE orders (id bigint PRIMARY KEY, at timestamp, at_ms timestamp(3), code varchar(20));
P
cat > order.avsc <<'P'
{"type": "record", "name": "orders", "fields": [
  {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
  {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
  {"name": "raw", "type": "bytes"},
  {"name": "tags", "type": {"type": "map", "values": "long"}},
  {"name": "day", "type": {"type": "int", "logicalType": "date"}}
]}
P
run() { venv/bin/datacontract "$@" >out 2>log || { cat out log; exit 1; }; }
run import sql --source order.sql --dialect postgres --output order.yaml
run export sql order.yaml; grep -v "^--" out | tr -s ' \n' ' ' > ddl
run import avro --source order.avsc --output avro.yaml
run export avro avro.yaml; cp out avsc
venv/bin/python - <<'P'
import json

ddl, avsc = open("ddl").read(), open("avsc").read()
for column in ("at timestamptz,", "at_ms timestamptz(3),", "code text "):
    assert column in ddl, f"datacontract-types: {ddl}"
seen = {each["name"]: each["type"] for each in json.loads(avsc[avsc.index("{") : avsc.rindex("}") + 1])["fields"]}
assert seen == {
    "at": "long",
    "price": "bytes",
    "raw": {"type": "array", "items": "string"},
    "tags": "map",
    "day": {"type": "int", "logicalType": "date"},
}, f"datacontract-types: {seen}"
P
echo "ok datacontract-types: datacontract-cli 1.2.8 makes timestamp timestamptz, and loses Avro's timestamp-micros and decimal"
