#!/usr/bin/env bash
# Guess: delta-rs refuses an appended value that does not fit its column, as it refuses decimal(10,4) under decimal(10,2) and 2^40 under an int.
# Version: deltalake 1.6.6, pyarrow 26.0.1
# Behaviour: a double appended to a bigint column loses its fraction, and one beyond float32 becomes infinity in a float column, both silently. A merge
#   rounds the decimal that an append refuses.
# Seen: 1.5 -> 1; 1e300 -> inf; merge of 1.2399 -> 1.24, append of it: SchemaMismatchError
set -euo pipefail
tmp=$(mktemp -d); chmod 755 "$tmp"; trap 'rm -rf "$tmp"' EXIT; export TMPDIR="$tmp"
${PYTHON:-python3.11} -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check deltalake==1.6.6 pyarrow==26.0.1
"$tmp/venv/bin/python" -W ignore - <<'P'
import tempfile
from decimal import Decimal

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import SchemaMismatchError

def table(kind, value):
    return pa.table({"key": [1], "value": pa.array([value], kind)})

def appended(before, after):
    path = tempfile.mkdtemp()
    write_deltalake(path, before)
    write_deltalake(path, after, mode="append")
    return sorted(DeltaTable(path).to_pyarrow_table()["value"].to_pylist())

seen = appended(table(pa.int64(), 0), table(pa.float64(), 1.5))
assert seen == [0, 1], f"delta-append-cast: {seen}"
seen = appended(table(pa.float32(), 0), table(pa.float64(), 1e300))
assert seen == [0.0, float("inf")], f"delta-append-cast: {seen}"
old, new = table(pa.decimal128(10, 2), Decimal("1.10")), table(pa.decimal128(10, 4), Decimal("1.2399"))
try:
    raise SystemExit(f"delta-append-cast: {appended(old, new)}")
except SchemaMismatchError:
    pass
path = tempfile.mkdtemp()
write_deltalake(path, old)
DeltaTable(path).merge(new, predicate="t.key = s.key", source_alias="s", target_alias="t").when_matched_update_all().execute()
seen = DeltaTable(path).to_pyarrow_table()["value"].to_pylist()
assert seen == [Decimal("1.24")], f"delta-append-cast: {seen}"
P
echo "ok delta-append-cast: deltalake 1.6.6 appends 1.5 to a bigint column as 1, and merges 1.2399 as 1.24"
