#!/usr/bin/env bash
# Guess: msgspec cuts the seventh digit of a second, as pydantic does.
# Version: msgspec 0.23.0, pydantic 2.14.4
# Behaviour: it rounds. A datetime goes into the next year, as in Postgres; a time of day wraps around to midnight at the day's beginning, where Postgres
#   says 24:00:00.
# Seen: time 23:59:59.9999999 -> 00:00:00; 2024-12-31T23:59:59.9999999Z -> 2025-01-01; pydantic: 23:59:59.999999
set -euo pipefail
tmp=$(mktemp -d); chmod 755 "$tmp"; trap 'rm -rf "$tmp"' EXIT; export TMPDIR="$tmp"
${PYTHON:-python3.11} -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check msgspec==0.23.0 pydantic==2.14.4
"$tmp/venv/bin/python" -W ignore - <<'P'
import datetime as dt

import msgspec
import pydantic

def read(kind, text):
    return msgspec.json.decode(f'"{text}"', type=kind), pydantic.TypeAdapter(kind).validate_json(f'"{text}"')

seen = read(dt.time, "23:59:59.9999999")
assert seen == (dt.time(0), dt.time(23, 59, 59, 999999)), f"msgspec-time-rounding: {seen}"
rounded, cut = read(dt.datetime, "2024-12-31T23:59:59.9999999Z")
assert (rounded.year, cut.year) == (2025, 2024), f"msgspec-time-rounding: {rounded} {cut}"
P
echo "ok msgspec-time-rounding: msgspec 0.23.0 reads the time 23:59:59.9999999 as 00:00"
