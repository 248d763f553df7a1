"""The verbs that move records: ``ingest``, ``replay``, ``quarantine retry`` and the delivery of dead letters."""

from argparse import Namespace

from offset_ledger.base.progress import live
from offset_ledger.base.units import counted
from offset_ledger.errors import ConfigurationError, ContradictoryRequest
from offset_ledger.interfaces.cli.output import batch_data, batch_line, show
from offset_ledger.interfaces.cli.verbs import (
    PIPELINE,
    TAKE_OVER,
    Option,
    Outcome,
    Topics,
    by_topic,
    from_0,
    from_1,
    moment,
    pipeline_of,
    since,
    verb,
)
from offset_ledger.model.batch import current_origin
from offset_ledger.model.request import Request, parse_request


@verb(
    PIPELINE,
    Option("--until-drained", action="store_true", help="go on until nothing is new"),
    Option("--limit", type=from_1, help="maximum number of offsets in a batch; an open one is resumed as it is"),
    Option("--dry-run", action="store_true", help="show what would be read, and write nothing"),
    TAKE_OVER,
    topics=Topics.TOGETHER,
    example="offset-ledger ingest flights --until-drained",
)
def run_ingest(arguments: Namespace) -> Outcome:
    """Plan, stage, validate, commit and report, without Airflow."""
    from offset_ledger.outside.spark.session import session_ended
    from offset_ledger.steps.run.ingest import ingest

    pipeline, done = pipeline_of(arguments), []
    if arguments.dry_run:
        from offset_ledger.steps.plan.topics import find_pipelines
        from offset_ledger.steps.run.requests import preview

        request = Request(dry_run=True, limit=arguments.limit)
        planned = {each.name: preview(each, request) for each in find_pipelines(pipeline, record=False)}
        if not pipeline.source.several:
            return Outcome(planned[pipeline.name].data, str(planned[pipeline.name]))
        text = by_topic({name: str(shown) for name, shown in planned.items()})
        return Outcome({name: shown.data for name, shown in planned.items()}, text)
    with session_ended():
        given = (arguments.until_drained, live, arguments.limit, arguments.take_over)
        for batch in ingest(pipeline, current_origin(), *given):
            done.append(batch_data(batch))
            if not arguments.json:
                show(batch_line(batch))
    return Outcome(done, f"{counted(len(done), 'batch')} committed" if done else "nothing is new, nothing changed")


@verb(
    PIPELINE,
    Option("--partition", type=from_0, help="the partition of --from-offset and --until-offset"),
    Option("--from-offset", type=from_0, help="first offset"),
    Option("--until-offset", type=from_1, help="end, exclusive"),
    since("first record timestamp, instead of offsets"),
    since("end of the record timestamps, exclusive (now)", "--until"),
    Option("--scan", action="store_true", help="with --since: also the records that came late"),
    Option("--fill", action="store_true", help="also write rows whose newest state is one of these records"),
    Option("--limit", type=from_1, help="maximum number of offsets"),
    Option("--dry-run", action="store_true", help="show what would be read, and write nothing"),
    TAKE_OVER,
    Option("--why", help="recorded with the batch"),
    topics=Topics.ONE,
    example="offset-ledger replay flights --partition 0 --from-offset 1000 --until-offset 2000",
)
def run_replay(arguments: Namespace) -> Outcome:
    """Read offset ranges, or a window of time, again; the cursors do not move."""
    from offset_ledger.outside.spark.session import session_ended
    from offset_ledger.steps.run.requests import preview, replay

    pipeline, offsets = pipeline_of(arguments), (arguments.partition, arguments.from_offset, arguments.until_offset)
    given = {name: getattr(arguments, name) for name in ("limit", "dry_run", "why", "scan", "fill")}
    if arguments.since or arguments.until:
        if offsets != (None, None, None):
            raise ContradictoryRequest("replay takes offsets, or --since and --until, and not both; choose one")
        if not arguments.since:
            raise ContradictoryRequest("--until needs --since, at which the window begins")
        given |= {"action": "window", "since": arguments.since, "until": arguments.until or moment("0s")}
    elif None in offsets:
        raise ConfigurationError("replay takes --partition, --from-offset and --until-offset, or --since")
    elif arguments.scan:
        raise ContradictoryRequest("--scan is for a window of time: give --since instead of offsets")
    else:
        given |= {"action": "ranges", "ranges": "{}:{}-{}".format(*offsets)}
    request = parse_request(given)
    if request.dry_run:
        planned = preview(pipeline, request)
        return Outcome(planned.data, str(planned))
    with session_ended():
        batch = replay(pipeline, request, current_origin(), live, arguments.take_over)
    return Outcome(batch_data(batch), batch_line(batch))


@verb(
    PIPELINE,
    Option("--reason", help="only records refused for this reason code; see: quarantine list PIPELINE"),
    since("only records quarantined since"),
    Option("--limit", type=from_1, help="maximum number of records (limits.records_per_batch)"),
    TAKE_OVER,
    Option("--why", help="recorded with the batch"),
    example="offset-ledger quarantine retry flights --reason type --limit 1000",
)
def run_redrive(arguments: Namespace) -> Outcome:
    """Retry quarantined records, with the current pipeline file and suite."""
    from offset_ledger.steps.run.ingest import run_batch
    from offset_ledger.steps.run.redrive import parse_choice, plan_redrive

    pipeline = pipeline_of(arguments)
    choice = parse_choice(arguments.reason, arguments.since, arguments.limit)
    planned = plan_redrive(pipeline, choice, current_origin(), arguments.why)
    live(planned.message)
    if planned.batch is None:
        return Outcome(None, "nothing is to redrive, nothing changed")
    batch = run_batch(pipeline, planned, current_origin(), live, take_over=arguments.take_over)
    return Outcome(batch_data(batch), batch_line(batch))


@verb(PIPELINE, example="offset-ledger quarantine deliver flights")
def run_dead_letters(arguments: Namespace) -> Outcome:
    """Deliver pending dead letters."""
    from offset_ledger.steps.report.dead_letters import deliver

    delivered = deliver(pipeline_of(arguments))
    entry = {"published": delivered.published, "found": delivered.already_delivered}
    return Outcome(entry, str(delivered))
