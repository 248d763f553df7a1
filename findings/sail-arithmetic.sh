#!/usr/bin/env bash
# Guess: Sail, asked by Spark Connect, computes as Spark 4 in ANSI mode: an int that overflows raises, and decimal(10,2) / decimal(10,2) is
#   decimal(23,13), the type that Spark's rules give.
# Version: pysail 0.7.2, pyspark-client 4.2.0
# Behaviour: spark.sql.ansi.enabled is true, a cast that does not fit raises and so does 1/0, but a sum wraps around silently. The quotient is
#   decimal(16,6). The product of two decimal(38,18) is decimal(38,36), and 10 * 10 is 100 with 36 zeros, a digit more than that type has.
#   sum() of bigint wraps around, too.
# Seen: 2147483647 + 1 -> -2147483648; cast(300 as tinyint) raises; 1/3 -> 0.333333; 10 * 10 -> 100.000000000000000000000000000000000000
set -euo pipefail
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
${PYTHON:-python3.11} -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install --quiet --disable-pip-version-check uv
"$tmp/venv/bin/uv" pip install --quiet --python "$tmp/venv/bin/python" pysail==0.7.2 pyspark-client==4.2.0
RUST_LOG=off "$tmp/venv/bin/python" -W ignore - <<'E'
from decimal import Decimal

from pysail.spark import SparkConnectServer
from pyspark.sql import SparkSession

server = SparkConnectServer("127.0.0.1", 0)
server.start()
spark = SparkSession.builder.remote(f"sc://127.0.0.1:{server.listening_address[1]}").getOrCreate()

def value(expression):
    return spark.sql(f"SELECT {expression} AS x").collect()[0].x

def raises(expression):
    try:
        value(expression)
    except Exception:
        return True
    return False

assert spark.conf.get("spark.sql.ansi.enabled") == "true"
assert value("2147483647 + 1") == -2147483648
assert value("9223372036854775807 + 1L") == -9223372036854775808
assert raises("1 / 0") and raises("cast(300 as tinyint)")
third = "cast(1 as decimal(10,2)) / cast(3 as decimal(10,2))"
assert spark.sql(f"SELECT {third} AS x").schema["x"].dataType.simpleString() == "decimal(16,6)"
assert value(third) == Decimal("0.333333")
product = spark.sql("SELECT cast(10 as decimal(38,18)) * cast(10 as decimal(38,18)) AS x")
assert product.schema["x"].dataType.simpleString() == "decimal(38,36)" and product.collect()[0].x == 100
total = spark.sql("SELECT sum(n) AS x FROM VALUES (9223372036854775807), (1) AS t(n)")
assert total.collect()[0].x == -9223372036854775808
spark.stop()
server.stop()
E
echo "ok sail-arithmetic: Sail 0.7.2 says ANSI and wraps 2147483647 + 1 around; decimal(10,2) / decimal(10,2) is decimal(16,6)"
