#!/usr/bin/env bash
# Guess: Airflow's StartOfDayMapper reads an ISO 8601 key with an offset and normalizes it to UTC, as it reads the keys that the mappers write.
# Version: apache-airflow-core 3.3.2
# Behaviour: it reads exactly %Y-%m-%dT%H:%M:%S: a Z, an offset, a fraction, a bare date and the key of StartOfHourMapper each raise ValueError. The key's time
#   is one of the mapper's time zone. With %z in input_format the offset counts, and the day is one of the mapper's time zone.
# Seen: ...T01:30:00Z and ...+05:30 -> "unconverted data remains"; 2026-11-30T10, the hour's key, -> ValueError;
#   with %z 2026-11-30T01:30:00+0530 -> 2026-11-29, in Asia/Tokyo 2026-11-30
set -euo pipefail
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT; export AIRFLOW_HOME="$tmp/home"
${PYTHON:-python3.11} -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check uv
"$tmp/venv/bin/uv" pip install --quiet --python "$tmp/venv/bin/python" apache-airflow-core==3.3.2
"$tmp/venv/bin/python" -W ignore - <<'E'
from airflow.partition_mappers import StartOfDayMapper, StartOfHourMapper

def refused(mapper, key):
    try:
        mapper.to_downstream(key)
    except ValueError:
        return True
    return False

day = StartOfDayMapper()
assert day.to_downstream("2026-11-30T01:30:00") == "2026-11-30"
hour = StartOfHourMapper().to_downstream("2026-11-30T10:30:00")
assert hour == "2026-11-30T10", hour
for key in hour, "2026-11-30", "2026-11-30T01:30:00Z", "2026-11-30T01:30:00+05:30", "2026-11-30T01:30:00.5":
    assert refused(day, key), key
FORMAT = "%Y-%m-%dT%H:%M:%S%z"
assert StartOfDayMapper(input_format=FORMAT).to_downstream("2026-11-30T01:30:00+0530") == "2026-11-29"
assert StartOfDayMapper(input_format=FORMAT, timezone="Asia/Tokyo").to_downstream("2026-11-30T01:30:00+0530") == "2026-11-30"
E
echo "ok airflow-partition-keys: Airflow 3.3.2's StartOfDayMapper refuses a Z, an offset, a date and the key of StartOfHourMapper"
