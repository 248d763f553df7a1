"""The verbs that read: what is new, or what was read before."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict
from typing import Any

from offset_ledger.cli.verbs import Outcome, Verbs, from_1, pipeline_of, say
from offset_ledger.errors import ConfigurationError, ContradictoryRequest
from offset_ledger.model.request import Request
from offset_ledger.model.request_form import parse_request


def add_verbs(verbs: Verbs) -> None:
    """Add the verbs of this module to the command line."""
    made = verbs.of_pipeline("ingest", "plan, stage, validate, commit and report, without Airflow", ingest)
    made.add_argument("--until-drained", action="store_true", help="go on until nothing is new")
    made.add_argument("--limit", type=from_1, help="at most so many offsets a batch; an open one is resumed as it is")
    made.add_argument("--dry-run", action="store_true", help="show what would be read, and write nothing")

    made = verbs.of_pipeline("replay", "read offset ranges again; cursors do not move", replay)
    made.add_argument("--partition", type=int, help="the partition of --from-offset and --until-offset")
    made.add_argument("--from-offset", type=int, help="first offset")
    made.add_argument("--until-offset", type=int, help="end, not read itself")
    made.add_argument("--since", help="first record timestamp, ISO 8601 with zone, instead of offsets")
    made.add_argument("--until", help="end of the record timestamps, not read itself")
    made.add_argument("--scan", action="store_true", help="with --since and --until: also the records that came late")
    made.add_argument("--limit", type=int, help="at most so many offsets")
    made.add_argument("--dry-run", action="store_true", help="show what would be read, and write nothing")
    made.add_argument("--why", help="kept with the batch")


def ingest(arguments: Namespace) -> Outcome:
    """Commit what is new, or show what would be read."""
    from offset_ledger.ledger.origin import current_origin
    from offset_ledger.operations.ingest import ingest as run
    from offset_ledger.stage.session import session_ended

    pipeline = pipeline_of(arguments)
    if arguments.dry_run:
        from offset_ledger.model.request import Request
        from offset_ledger.operations.preview import preview

        shown = preview(pipeline, Request(dry_run=True, limit=arguments.limit))
        return Outcome(shown.data, str(shown))
    done = []
    with session_ended():
        for each in run(pipeline, current_origin(), arguments.until_drained, say, arguments.limit):
            done.append(summary(each))
            say(line(each))
    return Outcome(done, f"{len(done)} batches committed" if done else "nothing is new, nothing changed")


def replay(arguments: Namespace) -> Outcome:
    """Read offset ranges or a window again, or show what would be read."""
    from offset_ledger.ledger.origin import current_origin
    from offset_ledger.operations.ingest import run_batch
    from offset_ledger.operations.preview import preview
    from offset_ledger.operations.requests import wanted_ranges
    from offset_ledger.plan.step import plan_replay
    from offset_ledger.stage.session import session_ended

    pipeline, request = pipeline_of(arguments), _request(arguments)
    if request.dry_run:
        shown = preview(pipeline, request)
        return Outcome(shown.data, str(shown))
    wanted, notes = wanted_ranges(pipeline, request)
    if not wanted:
        raise ConfigurationError(notes)
    why = "; ".join(filter(None, [request.why, notes])) or None
    planned = plan_replay(pipeline, wanted, current_origin(), request.kind, why, request.key)
    say("; ".join(filter(None, [planned.message, notes])))
    with session_ended():
        done = run_batch(pipeline, planned, current_origin(), say)
    return Outcome(summary(done), line(done))


def _request(arguments: Namespace) -> Request:
    places = (arguments.partition, arguments.from_offset, arguments.until_offset)
    common = {"limit": arguments.limit, "dry_run": arguments.dry_run, "why": arguments.why}
    if arguments.since or arguments.until:
        if places != (None, None, None):
            raise ContradictoryRequest("replay takes offsets, or --since and --until, and not both; choose one")
        window = {"since": arguments.since, "until": arguments.until, "scan": arguments.scan}
        return parse_request({"action": "window", **window, **common})
    if None in places:
        raise ConfigurationError("replay takes --partition, --from-offset and --until-offset, or --since and --until")
    ranges = "{}:{}-{}".format(*places)
    return parse_request({"action": "ranges", "ranges": ranges, "scan": arguments.scan, **common})


def summary(ingested: Any) -> dict[str, Any]:
    """One committed batch for --json."""
    committed = ingested.committed
    return {
        "batch_id": committed.batch.batch_id,
        "counts": asdict(committed.total),
        "partitions": {p: asdict(line) for p, line in committed.sheet.items()},
        "seconds": {step: round(s, 3) for step, s in ingested.seconds.items()},
    }


def line(ingested: Any) -> str:
    """One committed batch for people."""
    total = ingested.committed.total
    counts = ", ".join(f"{n:,} {name}" for name, n in asdict(total).items() if n)
    seconds = ", ".join(f"{step} {s:.1f} s" for step, s in ingested.seconds.items())
    batch_id = ingested.committed.batch.batch_id
    if ingested.committed.already:
        return f"batch {batch_id} was committed by a concurrent attempt: {total.total:,} offsets: {counts} ({seconds})"
    return f"committed batch {batch_id}: {total.total:,} offsets: {counts} ({seconds})"
