#!/usr/bin/env bash
# Guess: ptars raises for a Timestamp that timestamp[ns] cannot hold, as protarrow does.
# Version: ptars 0.0.25, protarrow 0.16.0, grpcio-tools 1.85.1
# Behaviour: ptars gives the last instant that fits, silently: 2300 and 9999 are both in April 2262. protarrow raises; but with enum_type=string it gives an
#   unknown number the name of 0, where ptars gives the number.
# Seen: 2300-01-01 -> 9223372036854775807 ns (2262-04-11), protarrow: OverflowError; enum 7 -> protarrow 'UNKNOWN', ptars '7'
set -euo pipefail
tmp=$(mktemp -d); chmod 755 "$tmp"; trap 'rm -rf "$tmp"' EXIT; export TMPDIR="$tmp"
${PYTHON:-python3.11} -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check ptars==0.0.25 protarrow==0.16.0 pyarrow==26.0.1 grpcio-tools==1.85.1
cat > "$tmp/order.proto" <<'P'
syntax = "proto3";
import "google/protobuf/timestamp.proto";
enum State { UNKNOWN = 0; PAID = 1; }
message Order { google.protobuf.Timestamp at = 1; State state = 2; }
P
cd "$tmp"; "$tmp/venv/bin/python" -W ignore -m grpc_tools.protoc -I. --python_out=. order.proto
"$tmp/venv/bin/python" -W ignore - <<'P'
import sys

sys.path.insert(0, ".")
import protarrow
import ptars
import pyarrow as pa
from google.protobuf.timestamp_pb2 import Timestamp
from order_pb2 import Order

def by_ptars(message, **options):
    pool = ptars.HandlerPool([Order.DESCRIPTOR.file], ptars.PtarsConfig(**options))
    return pool.get_for_message(Order.DESCRIPTOR).list_to_record_batch([message.SerializeToString()])

far = Order(at=Timestamp(seconds=10413792000))
seen = by_ptars(far)["at"].cast(pa.int64()).to_pylist()
assert seen == [2**63 - 1], f"ptars-timestamp: {seen}"
try:
    protarrow.messages_to_record_batch([far], Order)
except OverflowError:
    pass
else:
    raise SystemExit("ptars-timestamp: protarrow takes 2300")
unknown = Order.FromString(b"\x10\x07")
named = protarrow.messages_to_record_batch([unknown], Order, protarrow.ProtarrowConfig(enum_type=pa.string()))
seen = named["state"].to_pylist(), by_ptars(unknown, enum_repr="string")["state"].to_pylist()
assert seen == (["UNKNOWN"], ["7"]), f"ptars-timestamp: {seen}"
P
echo "ok ptars-timestamp: ptars 0.0.25 reads the year 2300 as 2262"
