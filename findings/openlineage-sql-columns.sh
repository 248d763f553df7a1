#!/usr/bin/env bash
# Guess: the lineage of columns that openlineage-sql finds in INSERT INTO t (a) SELECT s.x names the column a of t.
# Version: openlineage-sql 1.54.0, dialect postgres
# Behaviour: it names the column of the SELECT, although t has none of that name; with UNION ALL there is one for each branch; a MERGE has none.
# Seen: INSERT INTO t (a) SELECT s.x ... -> x from s.x; INSERT INTO t (k) SELECT k FROM s1 UNION ALL SELECT j FROM s2 -> k and j; a MERGE -> nothing
set -euo pipefail
tmp=$(mktemp -d); chmod 755 "$tmp"; trap 'rm -rf "$tmp"' EXIT
${PYTHON:-python3.11} -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check openlineage-sql==1.54.0
"$tmp/venv/bin/python" - <<'E'
from openlineage_sql import parse

def columns(sql):
    found = parse([sql], dialect="postgres")
    assert not found.errors and [table.name for table in found.out_tables] == ["t"], sql
    return sorted((c.descendant.name, *((one.origin.name, one.name) for one in c.lineage)) for c in found.column_lineage)

seen = [
    columns("INSERT INTO t (a) SELECT s.x FROM s JOIN u USING (k)"),
    columns("INSERT INTO t (k) SELECT k FROM s1 UNION ALL SELECT j FROM s2"),
    columns("MERGE INTO t USING s ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.x)"),
]
expected = [[("x", ("s", "x"))], [("j", ("s2", "j")), ("k", ("s1", "k"))], []]
assert seen == expected, seen
E
echo "ok openlineage-sql-columns: openlineage-sql 1.54.0 gives the lineage of t.x for INSERT INTO t (a) SELECT s.x"
