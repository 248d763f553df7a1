"""The verbs of the command line as functions: they return values, or Arrow tables, and print nothing.

Each takes a pipeline, or the name or path of its file, and finds its connections as the command line does: inside
Airflow from Airflow, elsewhere in ``AIRFLOW_CONN_<ID>`` variables.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from offset_ledger.errors import ConfigurationError
from offset_ledger.model.batch import current_origin
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.request import Request, RunAction
from offset_ledger.operations.check.arrow_tables import BATCHES, QUARANTINED, Preview, preview_tables
from offset_ledger.operations.check.decode_sample import Choice
from offset_ledger.operations.check.diff import check_topic, compare_table
from offset_ledger.operations.repair import verify as _verify
from offset_ledger.operations.status.status import PipelineStatus, recent_batches
from offset_ledger.operations.status.status import status as _status
from offset_ledger.pipeline_file.parse import parse_named
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import named_sql, open_ledger, rows
from offset_ledger.steps.plan.topics import find_pipelines
from offset_ledger.steps.run import ingest as _ingest
from offset_ledger.steps.run import requests as _replay
from offset_ledger.steps.run.ingest import Ingested
from offset_ledger.steps.validate.step import read_suite

AnyPipeline = Pipeline | str | Path
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Verified:
    """The findings of :func:`verify`: one line for each violation, none if every invariant holds."""

    violations: tuple[str, ...]
    checked: int
    notes: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Return whether nothing is violated."""
        return not self.violations


def check(pipeline: AnyPipeline) -> str:
    """Check a pipeline file, its suite, and if the servers answer topic and table; return a line about each of the two.

    Raises:
        PipelineFileError: the file has mistakes; ``problems`` has all of them, each with its line.
        ConfigurationError: the suite is missing or has mistakes, or a connection is wrong.
        AccessDenied: Kafka or Postgres refuses the login, or a right is missing.
        UnknownTopic: no topic of the file exists.
        TargetMismatch: the table does not fit the file.
    """
    checked = _pipeline(pipeline)
    read_suite(checked)
    return f"{check_topic(checked)[1]}\n{compare_table(checked)[1]}"


def ingest(
    pipeline: AnyPipeline,
    *,
    until_drained: bool = False,
    limit: int | None = None,
    take_over: bool = False,
    say: Say = lambda _: None,
) -> tuple[Ingested, ...]:
    """Commit the next batch, or all batches until nothing is new; the committed ones.

    ``limit`` is the greatest number of offsets of one batch; ``say`` gets a line for each step. With ``take_over`` an
    open batch is taken from another run although that is alive. A batch that Spark stages has a session of this
    process, which lives until the process ends. Of several topics each has its own batches, and the error of one is
    raised after all others have been ingested.

    Raises:
        BatchInUse: another run has the open batch, and is alive.
        BatchRejected: the quality gate rejected the batch; nothing of it was merged.
        LostRange: offsets that are needed are gone; nothing was changed.
        TransientError: a server is unavailable; call again.
    """
    return tuple(_ingest.ingest(_pipeline(pipeline), current_origin(), until_drained, say, limit, take_over))


def pipelines_of(pipeline: AnyPipeline) -> tuple[Pipeline, ...]:
    """A pipeline for each topic that the file reads, as :func:`status`, :func:`verify` and :func:`replay` take it.

    Raises:
        ConfigurationError: no topic matches the pattern of the file.
        BrokerUnavailable, DatabaseUnavailable: a server is unavailable.
    """
    return find_pipelines(_pipeline(pipeline))


def replay(
    pipeline: AnyPipeline,
    ranges: Sequence[OffsetRange] = (),
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    scan: bool = False,
    fill: bool = False,
    limit: int | None = None,
    why: str | None = None,
    take_over: bool = False,
    say: Say = lambda _: None,
) -> Ingested:
    """Read offset ranges, or a window of record timestamps, again; cursors do not move and newer rows stay.

    ``since`` and ``until`` carry a time zone; without ``until`` the window ends now. With ``scan`` the records that
    came late, behind the first one after the window, are read too. With ``fill`` rows whose newest state is one of the
    records are written again as today's pipeline file reads it, so that a column that was added later gets its values.

    Raises:
        ConfigurationError: neither ranges nor a window, both, or nothing to read in them.
        OffsetExpired: a range begins below the log start.
        BatchInUse, BatchRejected, TransientError: as :func:`ingest`, ``take_over`` too.
    """
    if bool(ranges) == bool(since or until):
        raise ConfigurationError("replay takes ranges, or since and until; give one of the two")
    if until and not since:
        raise ConfigurationError("until needs since, at which the window begins")
    until = until or (datetime.now(UTC) if since else None)
    action = RunAction.RANGES if ranges else RunAction.WINDOW
    request = Request(action, since, until, tuple(ranges), limit, why=why, scan=scan, fill=fill)
    return _replay.replay(_one(pipeline), request, current_origin(), say, take_over)


def preview(
    pipeline: AnyPipeline,
    *,
    records: int = 10,
    partition: int | None = None,
    from_offset: int | None = None,
    since: datetime | None = None,
) -> Preview:
    """Records of the topic, the next ones for example, decoded as a batch would decode them; nothing is written.

    ``from_offset`` is one of ``partition``; ``since``, a record timestamp, carries a time zone. UUIDs, ``jsonb`` and
    numerics that no Arrow decimal holds exactly are text. Raises as :func:`ingest`.
    """
    return preview_tables(_one(pipeline), Choice(partition, from_offset, _zoned(since)), records)


def quarantine(
    pipeline: AnyPipeline,
    *,
    reason: str | None = None,
    since: datetime | None = None,
    limit: int = 1000,
    resolved: bool = False,
    dismissed: bool = False,
) -> pa.Table:
    """The newest records in quarantine with bytes and reasons: unresolved, or those resolved or dismissed.

    ``reason`` is a code; ``since``, when they were quarantined, carries a time zone.
    """
    known, state = _one(pipeline), {"resolved": resolved, "dismissed": dismissed}
    wanted = {"pipeline": known.name, "reason": reason, "since": _zoned(since), "limit": limit, **state}
    with open_ledger(known) as session:
        records = [dict(row) for row in rows(session, named_sql("repair/quarantined_records"), wanted)]
    for record in records:
        record |= {name: bytes(record[name]) for name in ("key", "value") if record[name] is not None}
    return pa.Table.from_pylist(records, QUARANTINED)


def batches(pipeline: AnyPipeline, *, limit: int = 100) -> pa.Table:
    """The newest batches with their balance sheets."""
    return pa.Table.from_pylist(recent_batches(_one(pipeline), limit), BATCHES)


def _zoned(since: datetime | None) -> datetime | None:
    if since is not None and since.tzinfo is None:
        raise ConfigurationError(f"since: {since.isoformat()} has no time zone; write datetime(..., tzinfo=UTC)")
    return since


def status(pipeline: AnyPipeline) -> PipelineStatus:
    """Return cursors, lag, and the open batch with what it waits for.

    Raises:
        BrokerUnavailable, DatabaseUnavailable: a server is unavailable.
    """
    return _status(_one(pipeline))


def verify(pipeline: AnyPipeline, *, against_topic: bool = False) -> Verified:
    """Check every invariant of the ledger; with ``against_topic`` also every row against what the topic still holds.

    Raises:
        BrokerUnavailable, DatabaseUnavailable: a server is unavailable.
    """
    known = _one(pipeline)
    violations, checked = _verify.verify(known)
    notes: Sequence[str] = ()
    if against_topic:
        from offset_ledger.operations.repair.verify_against_topic import compare_with_topic

        compared = compare_with_topic(known)
        violations, notes = [*violations, *compared.violations], compared.notes
    return Verified(tuple(violations), checked, tuple(notes))


def _one(pipeline: AnyPipeline) -> Pipeline:
    """The pipeline, which reads one topic."""
    known = _pipeline(pipeline)
    if known.source.several:
        raise ConfigurationError(f"pipeline {known.name} reads several topics; give one of those of pipelines_of()")
    return known


def _pipeline(pipeline: AnyPipeline) -> Pipeline:
    return pipeline if isinstance(pipeline, Pipeline) else parse_named(str(pipeline))
