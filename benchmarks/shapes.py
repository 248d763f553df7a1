"""Plan to commit by the shape of the table: its key, and where its bookkeeping is.

    python -m benchmarks.shapes [--events 500000] [--rounds 3]

The events of benchmarks.ingest, each with its number too, staged by the process. Every round loads each shape into a
table of its own, in turns, and the medians are told as times those of the first shape.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import msgspec
from benchmarks.bench_stack import bench_stack, temporary_folder
from benchmarks.ingest import PARTITIONS, PIPELINE, TOPIC, events, steps
from benchmarks.peers.bench_servers import settle

from offset_ledger.base.progress import progress
from offset_ledger.outside.producer.publisher import publish
from offset_ledger.outside.producer.record import Record
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.postgres.connection import postgres_arguments
from offset_ledger.postgres.ledger.database import connect, transaction
from offset_ledger_kit.publishing.topics import create_topic
from offset_ledger_kit.sandbox.postgres import DATA_DATABASE

EVENT_ID, BESIDE = "event_id: $.event_id", ("table: public.bench", "table: public.bench, bookkeeping: beside")
BIGINT = (EVENT_ID, "key: {number: bigint}")
SHAPES: dict[str, tuple[tuple[str, str], ...]] = {
    "event_id text": (),
    "bigint": (BIGINT,),
    "text and bigint": ((EVENT_ID, "key: {source: {type: text, path: $.customer_name}, number: bigint}"),),
    "event_id text, beside": (BESIDE,),
    "bigint, beside": (BIGINT, BESIDE),
    "bigint, beside, two groups": (
        BIGINT,
        BESIDE,
        ("status: text", "status: {type: text, nullable: true, absent: keep}"),
        ("amount: numeric(12,2)", 'amount: {type: "numeric(12,2)", nullable: true, absent: keep}'),
    ),
}


def numbered(count: int) -> Iterator[Record]:
    """The events, with what a key of numbers is made of."""
    for record in events(count):
        event = msgspec.json.decode(record.value or b"")
        number = int(event["event_id"].rpartition("-")[2])
        event |= {"number": number, "customer_name": f"customer {number % 50_000}"}
        yield msgspec.structs.replace(record, value=msgspec.json.encode(event))


def measure(count: int, rounds: int, home: Path) -> dict[str, dict[str, float]]:
    """Medians of the seconds by step, for each shape."""
    seconds: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with bench_stack(home, say=print) as stack:
        extra = dict(stack.connections()[0].extra)
        create_topic(extra, TOPIC, PARTITIONS, 1, {})
        with progress(count, "published") as advance:
            publish(numbered(count), extra, TOPIC, on_progress=advance)
        superuser = dict(postgres_arguments(stack.postgres.superuser(DATA_DATABASE)))
        for turn in range(rounds):
            for place, (shape, changes) in enumerate(SHAPES.items()):
                name, text = f"bench_{place}_{turn}", PIPELINE
                for old, new in changes:
                    text = text.replace(old, new)
                path = home / f"{name}.yaml"
                path.write_text(text.replace("pipeline: bench", f"pipeline: {name}").replace("public.bench", name))
                settle(superuser)
                took, _, _ = steps(parse_pipeline(path), None)
                for step, each in (took | {"total": sum(took.values())}).items():
                    seconds[shape][step].append(each)
                print(turn + 1, shape, {step: round(each, 2) for step, each in took.items()}, flush=True)
                with connect(stack.postgres.connection()) as session, transaction(session) as cursor:
                    cursor.execute(f"DROP TABLE {name}; DROP TABLE IF EXISTS offset_ledger_rows.{name}")
    return {shape: {step: round(median(each), 2) for step, each in of.items()} for shape, of in seconds.items()}


def main() -> None:
    """Print the medians, and how many times the first shape's each total and commit are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with temporary_folder() as home:
        medians = measure(arguments.events, arguments.rounds, home)
    first = next(iter(medians.values()))
    for of in medians.values():
        of |= {f"x {step}": round(of[step] / first[step], 2) for step in ("commit", "total")}
    print(json.dumps(medians, indent=2))


if __name__ == "__main__":
    main()
