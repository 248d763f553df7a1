#!/usr/bin/env bash
# Guess: protobuf's json_format refuses "1_000" and "1e3" for an int32, base64 with a foreign character, "1e400" for a double and an offset of 25 hours.
# Version: protobuf 7.36.2 (Python)
# Behaviour: it takes all of them. The bare number 1e400 is refused, the text "1e400" is Infinity, for a float "1e39" as well.
# Seen: "1_000" -> 1000, "1e3" -> 1000, "٣" -> 3, "Y!Q=" -> b"a", "1e400" -> inf, "2026-11-30T10:00:00+25:00" -> 2026-11-29T09:00:00Z
set -euo pipefail
tmp=$(mktemp -d); chmod 755 "$tmp"; trap 'rm -rf "$tmp"' EXIT
${PYTHON:-python3.11} -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check protobuf==7.36.2
"$tmp/venv/bin/python" - <<'E'
from google.protobuf import json_format, timestamp_pb2, wrappers_pb2

def value(kind, text):
    return json_format.Parse(text, kind()).value

assert value(wrappers_pb2.Int32Value, '"1_000"') == 1000
assert value(wrappers_pb2.Int32Value, '"1e3"') == 1000
assert value(wrappers_pb2.Int32Value, '"\u0663"') == 3
assert value(wrappers_pb2.BytesValue, '"Y!Q="') == b"a"
assert value(wrappers_pb2.DoubleValue, '"1e400"') == float("inf")
assert value(wrappers_pb2.FloatValue, '"1e39"') == float("inf")
for kind, text in (wrappers_pb2.DoubleValue, "1e400"), (wrappers_pb2.FloatValue, "1e39"), (wrappers_pb2.Int32Value, '" 5"'):
    try:
        value(kind, text)
    except json_format.ParseError:
        continue
    raise SystemExit(f"protobuf-json-text: {text} is accepted now")
moment = json_format.Parse('"2026-11-30T10:00:00+25:00"', timestamp_pb2.Timestamp())
assert moment.ToJsonString() == "2026-11-29T09:00:00Z", moment
E
echo "ok protobuf-json-text: json_format 7.36.2 reads \"1_000\", \"Y!Q=\", \"1e400\" and an offset of 25 hours"
