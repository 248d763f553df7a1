"""Overview: a line for each pipeline of the files and of their ledgers; an unreadable one hides no other."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

from offset_ledger.errors import OffsetLedgerError, PipelineFileError, UnknownTopic
from offset_ledger.model.batch import Batch
from offset_ledger.operations.status.brokers import ask_registry, ask_topic
from offset_ledger.operations.status.pipeline import BrokerAnswer, Ledger, assess
from offset_ledger.operations.status.reader import by_ledger, read_ledger, reading
from offset_ledger.operations.status.status import HeadBatch, head_batch, waits_for
from offset_ledger.outside.connections import get_connection
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.pipeline_file.parse import FOLDER, parse_pipeline, pipeline_files
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger import batches
from offset_ledger.steps.plan.topics import known_pipelines

_TIMEOUT = 5  # seconds for a cluster: a person is waiting for the answer


@dataclass(frozen=True, slots=True)
class PipelineLine:
    """The standing of one pipeline in a line; None is what is not known.

    ``newest_record`` is the newest timestamp among the last committed records of its partitions. ``blocked_by`` says
    what stops it, ``error`` why some of this could not be read, ``retired`` who has settled that its topic is gone.
    ``lost``: offsets that were deleted before they were read; they are no lag. ``head`` is ``open_batch`` in values.
    """

    pipeline: str
    state: str
    lag: int | None = None
    newest_record: datetime | None = None
    open_batch: str | None = None
    quarantined: int | None = None
    blocked_by: str | None = None
    error: str | None = None
    retired: str | None = None
    lost: int = 0
    head: HeadBatch | None = None


# The ledger's view of one pipeline: its name, the pipeline of its file, and its open head batch.
_Known = tuple[str, Pipeline | None, Ledger, Batch | None]


def overview(folder: Path = FOLDER) -> tuple[PipelineLine, ...]:
    """Return all pipelines of the folder and of their ledgers by name, after the files that have mistakes.

    Each server is asked in one connection, and for a few seconds at most.

    Raises:
        ConfigurationError: there is no such folder.
    """
    by_name: dict[str, Pipeline] = {}
    lines = []
    for path in pipeline_files(folder):
        try:
            pipeline = parse_pipeline(path)
        except PipelineFileError as error:
            lines.append(PipelineLine(path.stem, "broken file", error=error.problems[0]))
            continue
        if (first := by_name.setdefault(pipeline.name, pipeline)) is not pipeline:
            wrong = f"{path}: {first.path} has the pipeline {first.name} too; give each pipeline its own name"
            lines.append(PipelineLine(path.stem, "broken file", error=wrong))
    parsed = list(by_name.values())
    known = [each for conn_id, group in by_ledger(parsed) for each in _in_ledger(conn_id, group)]
    lines += [_line(each, None, BrokerAnswer()) for each in known if each[1] is None]
    readable = sorted(((each[1], each) for each in known if each[1]), key=lambda pair: pair[0].source.connection)
    registries = {each.source.registry: each for each, _ in readable}
    silent = {conn_id: ask_registry(each).registry_problem for conn_id, each in registries.items()}
    for conn_id, pairs in groupby(readable, key=lambda pair: pair[0].source.connection):
        sources, of_cluster = zip(*pairs, strict=True)
        answers = zip(sources, _topics(conn_id, sources), strict=True)
        topics = [replace(topic, registry_problem=silent[each.source.registry]) for each, topic in answers]
        lines += map(_line, of_cluster, sources, topics)
    return tuple(sorted(lines, key=lambda line: (line.state != "broken file", line.pipeline)))


def _in_ledger(conn_id: str, of_ledger: list[Pipeline]) -> list[_Known]:
    """Return the pipelines of these files, and those of their ledger without a file."""
    try:
        with reading(conn_id, "offset-ledger status") as cursor:
            ledger = read_ledger(cursor)
            sources = {
                each.name: each for file in of_ledger for each in known_pipelines(file, nullcontext(cursor)) or (file,)
            }
            names = {**sources, **ledger.pipelines}
            return [(name, sources.get(name), ledger, batches.open_head(cursor, name)) for name in names]
    except OffsetLedgerError as error:
        return [(each.name, each, Ledger(problem=error.named), None) for each in of_ledger]


def _topics(conn_id: str, sources: Sequence[Pipeline]) -> list[BrokerAnswer]:
    """Return the cluster's answer about the topic of each pipeline."""
    try:
        with connect_kafka(get_connection(conn_id), timeout=_TIMEOUT) as kafka:
            answers = []
            for each in sources:
                try:
                    gone = BrokerAnswer(gone=True)  # a pattern has found no topic yet
                    answers.append(gone if each.source.several else BrokerAnswer(ask_topic(kafka, each.source.topic)))
                except OffsetLedgerError as error:
                    answers.append(BrokerAnswer(problem=error.named, gone=isinstance(error, UnknownTopic)))
            return answers
    except OffsetLedgerError as error:
        return [BrokerAnswer(problem=error.named)] * len(sources)


def _line(known: _Known, source: Pipeline | None, topic: BrokerAnswer) -> PipelineLine:
    name, _, ledger, head = known
    row = ledger.pipelines.get(name)
    complete = [each.complete_to for each in ledger.partitions.get(name, ()) if each.complete_to]
    line = PipelineLine(
        name,
        "no file",
        newest_record=max(complete, default=None),
        open_batch=str(head) if head else None,
        quarantined=None if ledger.problem else row["quarantined"] if row else 0,
        blocked_by=waits_for(head) or (row["question"] if row else None),
        error=ledger.problem,
        head=head_batch(head),
    )
    if source is None:
        return line
    standing = assess(source, ledger, topic, datetime.now(UTC))
    error = ledger.problem or (None if standing.retired else topic.problem)
    return replace(
        line,
        state=standing.condition.state,
        lag=None if error else standing.totals.lag,
        lost=standing.totals.lost,
        blocked_by=line.blocked_by or standing.problem or standing.silence,
        error=error or topic.registry_problem,
        retired=standing.retired,
    )
