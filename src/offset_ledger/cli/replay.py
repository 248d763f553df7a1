"""``replay``: offset ranges, or a window of record timestamps, read again."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from offset_ledger.cli.output import batch_data, batch_line
from offset_ledger.cli.verbs import Outcome, Topics, Verbs, pipeline_of, say
from offset_ledger.errors import ConfigurationError, ContradictoryRequest

if TYPE_CHECKING:
    from offset_ledger.config.model import Pipeline
    from offset_ledger.model.request import Request


def add_verb(verbs: Verbs) -> None:
    """Add it to the command line."""
    verb = verbs.add_for_pipeline(
        "replay",
        "read offset ranges, or a window of time, again; the cursors do not move",
        run,
        Topics.ONE,
        example="offset-ledger replay flights --partition 0 --from-offset 1000 --until-offset 2000",
    )
    verb.add_argument("--partition", type=int, help="the partition of --from-offset and --until-offset")
    verb.add_argument("--from-offset", type=int, help="first offset")
    verb.add_argument("--until-offset", type=int, help="end, exclusive")
    verb.add_argument("--since", help="first record timestamp, ISO 8601 with zone, instead of offsets")
    verb.add_argument("--until", help="end of the record timestamps, exclusive")
    verb.add_argument("--scan", action="store_true", help="with --since and --until: also the records that came late")
    verb.add_argument("--fill", action="store_true", help="also write rows whose newest state is one of these records")
    verb.add_argument("--limit", type=int, help="maximum number of offsets")
    verb.add_argument("--dry-run", action="store_true", help="show what would be read, and write nothing")
    verb.add_argument("--why", help="recorded with the batch")


def run(arguments: Namespace) -> Outcome:
    """Read offset ranges or a window again, or show what would be read."""
    from offset_ledger.operations.preview import preview

    pipeline, request = pipeline_of(arguments), _request(arguments)
    if not request.dry_run:
        return _replay(pipeline, request)
    planned = preview(pipeline, request)
    return Outcome(planned.data, str(planned))


def _replay(pipeline: Pipeline, request: Request) -> Outcome:
    from offset_ledger.ledger.origin import current_origin
    from offset_ledger.operations.replay import replay
    from offset_ledger.stage.session import session_ended

    with session_ended():
        batch = replay(pipeline, request, current_origin(), say)
    return Outcome(batch_data(batch), batch_line(batch))


def _request(arguments: Namespace) -> Request:
    from offset_ledger.model.request_form import parse_request

    offsets = (arguments.partition, arguments.from_offset, arguments.until_offset)
    common = {name: getattr(arguments, name) for name in ("limit", "dry_run", "why", "scan", "fill")}
    if arguments.since or arguments.until:
        if offsets != (None, None, None):
            raise ContradictoryRequest("replay takes offsets, or --since and --until, and not both; choose one")
        return parse_request({"action": "window", "since": arguments.since, "until": arguments.until, **common})
    if None in offsets:
        raise ConfigurationError("replay takes --partition, --from-offset and --until-offset, or --since and --until")
    return parse_request({"action": "ranges", "ranges": "{}:{}-{}".format(*offsets), **common})
