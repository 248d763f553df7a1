"""The verbs that read ranges again or accept a recreated topic: what the trigger form of the DAG can do, too."""

from __future__ import annotations

from argparse import Namespace

from offset_ledger.commands import Outcome, line, pipeline_of, say, summary
from offset_ledger.core.request import Request, parse_request
from offset_ledger.errors import ConfigurationError, ContradictoryRequest


def replay(arguments: Namespace) -> Outcome:
    """Read offset ranges or a window again, or show what would be read."""
    from offset_ledger.core.states import Kind
    from offset_ledger.ledger.batches import here
    from offset_ledger.steps.ingest import run_batch
    from offset_ledger.steps.plan import plan_replay
    from offset_ledger.steps.preview import preview
    from offset_ledger.steps.requests import wanted_ranges

    pipeline, request = pipeline_of(arguments), _request(arguments)
    if request.dry_run:
        shown = preview(pipeline, request)
        return Outcome(shown.data, str(shown))
    wanted, notes = wanted_ranges(pipeline, request)
    if not wanted:
        raise ConfigurationError(notes)
    why = "; ".join(filter(None, [request.why, notes])) or None
    planned = plan_replay(pipeline, wanted, here(), Kind.REPLAY, why, request.key)
    say("; ".join(filter(None, [planned.message, notes])))
    done = run_batch(pipeline, planned, here(), say)
    return Outcome(summary(done), line(done))


def _request(arguments: Namespace) -> Request:
    places = (arguments.partition, arguments.from_offset, arguments.until_offset)
    common = {"limit": arguments.limit, "dry_run": arguments.dry_run, "why": arguments.why}
    if arguments.since or arguments.until:
        if places != (None, None, None):
            raise ContradictoryRequest("replay takes offsets, or --since and --until, and not both; choose one")
        return parse_request({"action": "window", "since": arguments.since, "until": arguments.until, **common})
    if None in places:
        raise ConfigurationError("replay takes --partition, --from-offset and --until-offset, or --since and --until")
    return parse_request({"action": "ranges", "ranges": "{}:{}-{}".format(*places), **common})


def accept_topic(arguments: Namespace) -> Outcome:
    """Go on with a recreated topic."""
    from offset_ledger.ledger.batches import here
    from offset_ledger.steps.lost import accept_topic as accept
    from offset_ledger.steps.mirror import mirror

    pipeline = pipeline_of(arguments)
    snapshot = accept(pipeline, here(), arguments.why)
    mirror(pipeline, backwards=True)
    starts = {p.partition: p.log_start for p in snapshot.partitions}
    text = f"{pipeline.name} goes on with topic id {snapshot.topic_id} of {snapshot.topic}, from {starts}"
    return Outcome({"topic_id": snapshot.topic_id, "starts": starts}, text)
