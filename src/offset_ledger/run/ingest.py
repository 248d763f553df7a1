"""Ingest: all steps from plan to report in one process, without Airflow; and what follows a commit, there as here."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from offset_ledger.config.model import Pipeline
from offset_ledger.connections import get_connection
from offset_ledger.errors import BatchRejected, OffsetLedgerError
from offset_ledger.ledger.database import Session, open_ledger
from offset_ledger.ledger.fencing import alone_at
from offset_ledger.model.batch import Batch, Origin
from offset_ledger.model.states import State
from offset_ledger.plan.step import PlannedBatch, batch_limit, plan
from offset_ledger.plan.topics import find_pipelines
from offset_ledger.run.staging import Clock, StagingAhead, stage_batch
from offset_ledger.stage.session import check_session

if TYPE_CHECKING:
    from offset_ledger.commit.step import Committed

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ingested:
    """One committed batch and the seconds of each step."""

    committed: Committed
    seconds: dict[str, float] = field(default_factory=dict)


def ingest(
    pipeline: Pipeline,
    origin: Origin,
    until_drained: bool,
    say: Callable[[str], None],
    limit: int | None = None,
    take_over: bool = False,
) -> Iterator[Ingested]:
    """Commit head batches of at most ``limit`` offsets: one, or with ``until_drained`` all until nothing is new.

    While one of several is validated and committed, the next is planned and staged. What fails there is raised when the
    one before it is committed.

    Of several topics each has its own batches. A topic that cannot go on does not keep the others from it; its error
    is raised at the end.
    """
    check_session(pipeline)
    failed: list[OffsetLedgerError] = []
    for of_topic in find_pipelines(pipeline):
        try:
            with StagingAhead(of_topic, origin, limit, say, take_over) as ahead:
                while True:
                    clock = Clock(ahead.finish())
                    with open_ledger(of_topic) as session:
                        with clock.time("plan"):
                            planned = plan(of_topic, origin, limit, session=session)
                        say(planned.message)
                        if planned.batch is None:
                            break
                        more = planned.resumed or planned.waiting >= batch_limit(of_topic, limit)
                        staged = ahead.start if until_drained and more else None
                        done = run_batch(of_topic, planned, origin, say, clock, take_over, session, staged)
                    yield done
                    if not until_drained:
                        break
        except OffsetLedgerError as error:
            if not pipeline.source.several:
                raise
            log.warning("%s: %s", of_topic.name, error.named)
            failed.append(error)
    if failed:
        raise failed[0]


def run_batch(
    pipeline: Pipeline,
    planned: PlannedBatch,
    origin: Origin,
    say: Callable[[str], None],
    clock: Clock | None = None,
    take_over: bool = False,
    session: Session | None = None,
    staged: Callable[[], None] | None = None,
) -> Ingested:
    """Take a planned batch through every step; ``staged`` is called when it is.

    Raises:
        BatchInUse: another run has it, and is alive; with ``take_over`` that one is fenced.
        BatchRejected: the quality gate rejected it; nothing was merged.
    """
    from offset_ledger.commit.step import commit  # imports pyarrow: not where nothing is new

    assert planned.batch is not None
    batch_id, clock = planned.batch.batch_id, clock or Clock({"plan": 0.0})
    alone = alone_at(get_connection(pipeline.target.connection), batch_id, origin, take_over)
    with alone, open_ledger(pipeline, session) as session:
        stage_batch(pipeline, planned.batch, origin, say, clock, session)
        if staged:
            staged()
        with clock.time("validate"):
            validate_or_raise(pipeline, batch_id, origin, session)
        with clock.time("commit"):
            committed = commit(pipeline, batch_id, origin, session)
        finish(pipeline, batch_id, clock, session=session)
    if pipeline.quality.dead_letter_topic:
        from offset_ledger.repair.dead_letters import deliver

        with clock.time("dead letters"):
            try:
                say(str(deliver(pipeline)))
            except OffsetLedgerError as error:  # it does not affect the batch
                log.warning("dead letters wait in the outbox: %s", error.named)
    return Ingested(committed, clock.seconds)


def finish(
    pipeline: Pipeline,
    batch_id: int,
    clock: Clock | None = None,
    measure: Callable[[Pipeline, int, Session], None] | None = None,
    session: Session | None = None,
) -> Path | None:
    """Do what follows every commit, in this order: set the consumer group, send metrics, and write the pages.

    ``measure`` sends the metrics. All of it may be done again, and only a ledger that is away is an error. Returns the
    page of the batch; None if it could not be written.

    Raises:
        DatabaseUnavailable: worth another try.
    """
    from offset_ledger.report.consumer_group import mirror
    from offset_ledger.report.step import report

    clock = clock or Clock()
    with open_ledger(pipeline, session) as session:
        with clock.time("mirror"):
            mirror(pipeline, session=session)
        if measure:
            measure(pipeline, batch_id, session)
        with clock.time("report"):
            return report(pipeline, batch_id, session)


def validate_or_raise(pipeline: Pipeline, batch_id: int, origin: Origin, session: Session | None = None) -> Batch:
    """Validate a staged batch and return it; one that the gate rejects gets its report, and BatchRejected is raised."""
    from offset_ledger.report.step import report
    from offset_ledger.validate.step import validate

    batch, _ = validate(pipeline, batch_id, origin, session)
    if batch.state is State.REJECTED:
        page = report(pipeline, batch_id, session) or "its report"
        raise BatchRejected(
            f"batch {batch_id} of {pipeline.name} is rejected: {batch.reasons}; nothing was merged and no cursor "
            f"moved; see {page}, then run: offset-ledger batch approve {batch_id} --why ..., or "
            f"offset-ledger batch abandon {batch_id} --why ..."
        )
    return batch
