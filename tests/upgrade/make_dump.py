"""Make the dump of a version of the ledger, by that version itself.

There is one of each release, and one of the newest migration but one, which the next one replaces.

    git worktree add --detach /tmp/old COMMIT
    python -m tests.upgrade.make_dump /tmp/old

The version runs with the libraries of this environment. The dump is named after its newest migration.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from offset_ledger.connections import Connection
from offset_ledger.kafka.client import connect_kafka
from offset_ledger.ledger.database import connect, rows
from offset_ledger.publishing.producer import publish
from offset_ledger.publishing.topics import create_topic
from offset_ledger.sandbox import stack as local
from offset_ledger.sandbox.layout import PortChoice
from offset_ledger.sandbox.postgres import binary
from offset_ledger.sandbox.stack import Stack
from tests.paths import ROOT
from tests.upgrade.scenario import FIRST, PARTITIONS, PIPELINES, REST, write_pipeline

TOPIC = "upgraded.orders"
DUMPS = Path(__file__).with_name("dumps")
MAIN = "import sys; from offset_ledger.cli import main; sys.exit(getattr(main, 'main', main)(sys.argv[1:]))"


def main(checkout: Path) -> None:
    """Run the scenario in a stack of its own and write the dump."""
    with tempfile.TemporaryDirectory(prefix="offset-ledger-") as name:
        folder = Path(name)
        stack = local.up(brokers=1, ports=PortChoice.any_free(), home=folder / "home", project=ROOT)
        try:
            play(checkout, stack, folder)
            path = write_dump(stack)
        finally:
            local.down(folder / "home")
    print(path)


def play(checkout: Path, stack: Stack, folder: Path) -> None:
    """What the old version does."""
    extra = {"bootstrap.servers": stack.kafka.bootstrap}
    create_topic(extra, TOPIC, PARTITIONS, 1, {"retention.ms": "-1"})
    files = {left: write_pipeline(folder, left, TOPIC) for left in PIPELINES}
    run(checkout, stack, "migrate")
    publish(FIRST, extra, TOPIC)
    for left, path in files.items():
        if left.commits_first:
            run(checkout, stack, "ingest", str(path))
    publish(REST, extra, TOPIC)
    for left, path in files.items():
        run(checkout, stack, "ingest", str(path), OFFSET_LEDGER_FAILPOINTS=f"{left.place}=fail")


def run(checkout: Path, stack: Stack, *arguments: str, **more: str) -> None:
    """Run the old version's command line; with a failpoint it has to fail there."""
    environment = {**os.environ, **stack.environment(), "PYTHONPATH": str(checkout / "src"), **more}
    done = subprocess.run(
        [sys.executable, "-c", MAIN, *arguments], env=environment, capture_output=True, text=True, cwd=checkout
    )
    as_wanted = "failpoint" in done.stderr if more else done.returncode == 0
    if not as_wanted:
        sys.exit(f"{arguments} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")


def write_dump(stack: Stack) -> Path:
    """Dump the database, with the ids of topic and cluster as names that a test replaces."""
    database = stack.postgres.connection()
    program = binary("pg_dump")
    superuser = stack.postgres.superuser(str(database.schema))
    where = f"host={superuser.host} port={superuser.port} user={superuser.login} dbname={superuser.schema}"
    options = ["--no-owner", "--no-privileges", "--rows-per-insert=100", "--no-comments"]
    text = subprocess.run([program, where, *options], check=True, stdout=subprocess.PIPE, text=True).stdout
    cluster = Connection("kafka_default", "kafka", extra={"bootstrap.servers": stack.kafka.bootstrap})
    with connect_kafka(cluster) as kafka:
        snapshot = kafka.snapshot(TOPIC)
    for value, name in ((snapshot.topic_id, "@topic_id@"), (snapshot.cluster_id, "@cluster_id@"), (TOPIC, "@topic@")):
        text = text.replace(value, name)
    with connect(database) as session:
        newest = rows(session, "SELECT max(number) FROM offset_ledger.migration")[0][0]
    path = DUMPS / f"{newest:04}.sql"
    path.write_text("".join(line for line in text.splitlines(keepends=True) if not re.match(r"\\|--|$", line)))
    return path


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
