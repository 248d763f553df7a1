"""What the processes of a Spark session of this machine have in their environment: nothing that is secret."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.full

SECRET = "s3cr3t-of-the-test"
SECRETS = {
    "AIRFLOW_CONN_POSTGRES_DEFAULT": f"postgres://me:{SECRET}@db/shop",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"postgresql://me:{SECRET}@db/airflow",
    "AIRFLOW_VAR_ELSEWHERE": SECRET,
    "PGPASSWORD": SECRET,
    "SPARK_CONNECT_AUTHENTICATE_TOKEN": SECRET,
    "SHOP_SECRET": SECRET,
    "SHOP_URL": f"https://me:{SECRET}@shop.example.com",
}
# Both tasks at the same time, each in a worker of its own, which then waits for another one.
PROGRAM = """
import json, os, sys, time
from contextlib import suppress
from pathlib import Path
import psutil
from offset_ledger.outside.spark.session import end_session, local_session

def visit(batches):
    time.sleep(1)
    yield from batches

session = local_session()
session.range(0, 2, 1, 2).mapInArrow(visit, "id bigint").collect()
found = []
for each in psutil.Process().children(recursive=True):
    with suppress(psutil.NoSuchProcess, ProcessLookupError, FileNotFoundError):  # a short command has ended
        environment = Path(f"/proc/{each.pid}/environ").read_bytes().decode(errors="replace").split("\\0")
        found.append([each.name(), each.cmdline(), environment])
end_session()
print(json.dumps([found, sorted(set(os.environ) & set(sys.argv[1:]))]))
"""


@pytest.mark.usefixtures("stack")
def test_java_and_the_workers_of_a_session_inherit_no_secret() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *SECRETS],
        env={**os.environ, **SECRETS, "SHOP_REGION": "eu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    processes, kept = json.loads(done.stdout.splitlines()[-1])
    java = [each for each in processes if each[0] == "java"]
    python = [each for each in processes if "offset_ledger.outside.spark.worker_daemon" in each[1]]
    assert (len(java), len(python) >= 3) == (1, True)  # the daemon and two workers
    assert [each for each in processes if SECRET in json.dumps(each)] == []
    assert all("SHOP_REGION=eu" in each[2] for each in (*java, *python))
    assert kept == sorted(SECRETS)  # this process has them still
