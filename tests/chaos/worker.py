"""A process that runs steps on command: one JSON line in, one JSON line out, so that a test may kill or stop it.

Its Spark session, if a command needs one, stays warm; a worker that never stages is light and starts in a second.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from offset_ledger.errors import OffsetLedgerError, TransientError
from offset_ledger.model.batch import Origin
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.states import State
from offset_ledger.outside.connections import environment_name
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import open_ledger
from offset_ledger.postgres.ledger.decisions import decide
from offset_ledger.steps.commit.step import commit
from offset_ledger.steps.plan.step import PlannedBatch, plan, plan_replay
from offset_ledger.steps.plan.topics import find_pipelines
from offset_ledger.steps.report.step import report
from offset_ledger.steps.run.remerge import replay_parts, restate_rows
from offset_ledger.steps.stage.step import stage
from offset_ledger.steps.validate.step import validate
from tests.fixtures.engines import BY_PROCESS, by_spark

ME = Origin("chaos")


def _planned(found: PlannedBatch) -> dict[str, Any]:
    batch = found.batch
    return {
        "batch": batch.batch_id if batch else None,
        "resumed": found.resumed,
        "ranges": [[r.partition, r.from_offset, r.until_offset] for r in batch.ranges] if batch else [],
    }


def _do(asked: dict[str, Any], pipeline: Pipeline) -> dict[str, Any]:
    batch_id = int(asked.get("batch") or 0)
    match asked["do"]:
        case "plan":
            return _planned(plan(pipeline, ME))
        case "remerge":
            for each in find_pipelines(pipeline):
                restated = restate_rows(each, ME, "chaos")
                for _ in replay_parts(each, restated.parts, ME, "chaos", lambda _: None):
                    pass
        case "abandon":
            with open_ledger(pipeline) as session:
                decide(session, batch_id, State.ABANDONED, ME, "chaos")
        case "replay":
            return _planned(plan_replay(pipeline, [OffsetRange(*r) for r in asked["ranges"]], ME))
        case "warm" | "stage":
            from offset_ledger.outside.spark.session import staging_session

            reader = BY_PROCESS if asked.get("without_spark") else by_spark(staging_session())
            if asked["do"] == "warm":
                return {}
            with _every_slice_twice() if asked.get("twins") else nullcontext():
                staged = stage(reader, pipeline, batch_id, ME)
            return {"epoch": staged.attempt.epoch, "done": staged.done}
        case "claim":  # staging without a session: for what happens before anything is read
            stage(BY_PROCESS, pipeline, batch_id, ME)
        case "validate":
            return {"state": validate(pipeline, batch_id, ME)[0].state}
        case "commit":
            done = commit(pipeline, batch_id, ME)
            return {"already": done.already, "records": done.total.total}
        case "report":
            report(pipeline, batch_id)
    return {}


@contextmanager
def _every_slice_twice() -> Iterator[None]:
    """Each slice has two live tasks, as speculation or a lost executor makes them."""
    from offset_ledger.steps.stage import readers
    from offset_ledger.steps.stage.readers import SparkReader

    once, slots = SparkReader.read, readers.task_slots

    def twice(*given: Any) -> int:
        with ThreadPoolExecutor(2) as pool:
            (slices,) = {each.result() for each in [pool.submit(once, *given) for _ in range(2)]}
        return slices

    SparkReader.read = twice  # type: ignore[method-assign,assignment]
    readers.task_slots = lambda _: 1  # one task for each of the two: both run at once
    try:
        yield
    finally:
        SparkReader.read, readers.task_slots = once, slots  # type: ignore[method-assign]


def _answer(asked: dict[str, Any], out: Any, lock: threading.Lock) -> None:
    try:
        os.environ[environment_name("postgres_default")] = asked["database"]
        os.environ[environment_name("kafka_default")] = asked["kafka"]
        os.environ["OFFSET_LEDGER_RETRY_SECONDS"] = str(asked.get("patience", 20))
        pipeline = parse_pipeline(Path(asked["pipeline"]))
        if asked.get("topic"):
            pipeline = pipeline.of_topic(asked["topic"])
        answer = _do(asked, pipeline)
    except OffsetLedgerError as error:
        transient = isinstance(error, TransientError)
        answer = {"error": type(error).__name__, "message": str(error), "transient": transient}
    except Exception as error:  # noqa: BLE001 - an error that is not one of ours is a finding, and is told as it is
        answer = {"error": type(error).__name__, "message": " ".join(str(error).split())[:400], "transient": None}
    with lock:
        out.write(json.dumps({"id": asked["id"], **answer}) + "\n")
        out.flush()


def main() -> None:
    """Answer until the input ends: one command after the other, but stagings beside them.

    Commands run in the main thread, because a process that stops itself stops at once only there.
    """
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    lock = threading.Lock()
    asked: SimpleQueue[dict[str, Any] | None] = SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            asked.put(json.loads(line))
        asked.put(None)

    threading.Thread(target=listen, daemon=True).start()
    while (command := asked.get()) is not None:
        if command["do"] == "stage":
            threading.Thread(target=_answer, args=(command, out, lock), daemon=True).start()
        else:
            _answer(command, out, lock)


if __name__ == "__main__":
    main()
