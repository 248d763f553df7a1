#!/usr/bin/env bash
# Guess: pyarrow's JSON reader refuses an integer of 2^63, and a text with an offset under a timestamp without a zone, as its CSV reader refuses the latter.
# Version: pyarrow 26.0.1, datafusion 55.0.0
# Behaviour: where the type is inferred, one such integer makes the whole column a double, so that other keys lose digits; DataFusion does likewise. The offset
#   is applied and dropped; a text without one under a timestamp in Berlin's time is UTC. The CSV reader refuses both.
# Seen: 9007199254740993 -> 9007199254740992.0 beside 2^63; 02:30+02:00 -> 00:30; 02:30 in Europe/Berlin -> 02:30 UTC
set -euo pipefail
tmp=$(mktemp -d); chmod 755 "$tmp"; trap 'rm -rf "$tmp"' EXIT; export TMPDIR="$tmp"
${PYTHON:-python3.11} -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check pyarrow==26.0.1 datafusion==55.0.0
"$tmp/venv/bin/python" -W ignore - <<'P'
import datetime as dt
import io
import tempfile

import datafusion
import pyarrow as pa
import pyarrow.csv
import pyarrow.json

KEYS = b'{"a": 9007199254740993}\n{"a": 9223372036854775808}\n'
seen = pyarrow.json.read_json(io.BytesIO(KEYS))["a"].to_pylist()
assert seen == [9007199254740992.0, 2.0**63], f"arrow-json-values: {seen}"
with tempfile.NamedTemporaryFile(suffix=".json") as file:
    file.write(KEYS)
    file.flush()
    seen = datafusion.SessionContext().read_json(file.name).to_pydict()["a"]
assert seen == [9007199254740992.0, 2.0**63], f"arrow-json-values: {seen}"
for kind, text, utc in (
    (pa.timestamp("us"), b"2024-03-31T02:30:00+02:00", dt.datetime(2024, 3, 31, 0, 30)),
    (pa.timestamp("us", "Europe/Berlin"), b"2024-03-31T02:30:00", dt.datetime(2024, 3, 31, 2, 30)),
):
    options = pyarrow.json.ParseOptions(explicit_schema=pa.schema([("a", kind)]))
    read = pyarrow.json.read_json(io.BytesIO(b'{"a": "%s"}\n' % text), parse_options=options)["a"]
    seen = read.cast(pa.timestamp("us")).to_pylist()
    assert seen == [utc], f"arrow-json-values: {seen}"
    try:
        pyarrow.csv.read_csv(io.BytesIO(b"a\n%s\n" % text), convert_options=pyarrow.csv.ConvertOptions(column_types={"a": kind}))
    except pa.ArrowInvalid:
        continue
    raise SystemExit(f"arrow-json-values: the CSV reader takes {text}")
P
echo "ok arrow-json-values: pyarrow 26.0.1 makes keys beside 2^63 doubles, and applies an offset that its CSV reader refuses"
