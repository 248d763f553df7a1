#!/usr/bin/env bash
# Guess: openlineage-sql says that COPY t FROM STDIN writes t, and that SELECT FROM ONLY s reads s; what it cannot parse is among its errors.
# Version: openlineage-sql 1.54.0, dialect postgres
# Behaviour: COPY in either direction has no table and no error, nor has EXPLAIN or PREPARE of an INSERT. FROM ONLY s reads a table "ONLY".
#   A MERGE with RETURNING, inside a WITH too, is understood (guessed: a parse error).
# Seen: COPY t FROM STDIN -> in [], out [], errors []; SELECT * FROM ONLY s -> in [ONLY]; WITH m AS (MERGE ... RETURNING) -> in [s], out [t]
set -euo pipefail
tmp=$(mktemp -d); chmod 755 "$tmp"; trap 'rm -rf "$tmp"' EXIT
${PYTHON:-python3.11} -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check openlineage-sql==1.54.0
"$tmp/venv/bin/python" - <<'E'
from openlineage_sql import parse

def tables(sql):
    found = parse([sql], dialect="postgres")
    assert not found.errors, found.errors
    return sorted(table.name for table in found.in_tables), sorted(table.name for table in found.out_tables)

for sql in "COPY t FROM STDIN", "COPY t TO STDOUT", "COPY (SELECT * FROM t) TO STDOUT", "PREPARE p AS INSERT INTO t SELECT * FROM s":
    assert tables(sql) == ([], []), sql
assert tables("SELECT * FROM ONLY s") == (["ONLY"], [])
merge = "MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN DELETE RETURNING merge_action(), t.k"
assert tables(f"WITH m AS ({merge}) SELECT count(*) FROM m") == (["s"], ["t"])
E
echo "ok openlineage-sql-copy: openlineage-sql 1.54.0 finds no table in COPY and no error; FROM ONLY s reads a table ONLY"
