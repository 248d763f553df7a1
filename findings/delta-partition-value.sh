#!/usr/bin/env bash
# Guess: delta-rs reads a partition column's values back as they were written, bytes and decimals too.
# Version: deltalake 1.6.6, pyarrow 26.0.1
# Behaviour: bytes come back as the ASCII text of their escapes. A negative decimal is written with a sign in its
#   fraction too, and the table cannot be read.
# Seen: b'a' -> b'\\u0061'; decimal(10,2) -1.01 -> "Failed to parse value '-1.-1' as 'decimal(10,2)'"
set -euo pipefail
tmp=$(mktemp -d); chmod 755 "$tmp"; trap 'rm -rf "$tmp"' EXIT; export TMPDIR="$tmp"
${PYTHON:-python3.11} -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check deltalake==1.6.6 pyarrow==26.0.1
"$tmp/venv/bin/python" -W ignore - <<'P'
import tempfile
from decimal import Decimal

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

def read_back(kind, value):
    path = tempfile.mkdtemp()
    write_deltalake(path, pa.table({"part": pa.array([value], kind), "value": [1]}), partition_by=["part"])
    return DeltaTable(path).to_pyarrow_table()["part"].to_pylist()

seen = read_back(pa.binary(), b"a")
assert seen == [b"\\u0061"], f"delta-partition-value: {seen}"
assert read_back(pa.decimal128(10, 2), Decimal("1.01")) == [Decimal("1.01")]
try:
    raise SystemExit(f"delta-partition-value: {read_back(pa.decimal128(10, 2), Decimal('-1.01'))}")
except DeltaError as error:
    assert "-1.-1" in str(error), f"delta-partition-value: {error}"
P
echo "ok delta-partition-value: deltalake 1.6.6 reads the partition of bytes a as \\u0061, and not -1.01"
