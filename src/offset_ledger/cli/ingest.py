"""``ingest``: what is new in the topic, committed without Airflow."""

from __future__ import annotations

from argparse import Namespace

from offset_ledger.cli.output import batch_data, batch_line
from offset_ledger.cli.verbs import Outcome, Topics, Verbs, by_topic, from_1, pipeline_of, say
from offset_ledger.units import counted


def add_verb(verbs: Verbs) -> None:
    """Add it to the command line."""
    summary = "plan, stage, validate, commit and report, without Airflow"
    verb = verbs.add_for_pipeline(
        "ingest", summary, run, Topics.TOGETHER, example="offset-ledger ingest flights --until-drained"
    )
    verb.add_argument("--until-drained", action="store_true", help="go on until nothing is new")
    verb.add_argument(
        "--limit", type=from_1, help="maximum number of offsets in a batch; an open one is resumed as it is"
    )
    verb.add_argument("--dry-run", action="store_true", help="show what would be read, and write nothing")


def run(arguments: Namespace) -> Outcome:
    """Commit what is new, or show what would be read."""
    return _preview(arguments) if arguments.dry_run else _ingest(arguments)


def _preview(arguments: Namespace) -> Outcome:
    from offset_ledger.model.request import Request
    from offset_ledger.operations.preview import preview
    from offset_ledger.plan.topics import find_pipelines

    pipeline, request = pipeline_of(arguments), Request(dry_run=True, limit=arguments.limit)
    planned = {each.name: preview(each, request) for each in find_pipelines(pipeline, record=False)}
    if not pipeline.source.several:
        return Outcome(planned[pipeline.name].data, str(planned[pipeline.name]))
    text = by_topic({name: str(shown) for name, shown in planned.items()})
    return Outcome({name: shown.data for name, shown in planned.items()}, text)


def _ingest(arguments: Namespace) -> Outcome:
    from offset_ledger.ledger.origin import current_origin
    from offset_ledger.operations.ingest import ingest
    from offset_ledger.stage.session import session_ended

    pipeline, done = pipeline_of(arguments), []
    with session_ended():
        for batch in ingest(pipeline, current_origin(), arguments.until_drained, say, arguments.limit):
            done.append(batch_data(batch))
            say(batch_line(batch))
    return Outcome(done, f"{counted(len(done), 'batch')} committed" if done else "nothing is new, nothing changed")
