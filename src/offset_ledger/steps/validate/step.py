"""Validate: Great Expectations checks the staged rows in Postgres, and the batch passes or is rejected."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from psycopg2 import sql

from offset_ledger.base.failpoints import Failpoint, reach
from offset_ledger.errors import ConfigurationError, StateConflict
from offset_ledger.model.batch import Attempt, Batch, Origin
from offset_ledger.model.states import BatchKind, State
from offset_ledger.outside.connections import get_connection
from offset_ledger.pipeline_file.parse import nearest_above
from offset_ledger.pipeline_file.pipeline import Pipeline, RecordShape
from offset_ledger.postgres.ledger import batches, database, staging
from offset_ledger.postgres.ledger.database import Cursor, Session, open_ledger, transaction
from offset_ledger.postgres.ledger.fencing import fenced, wait_for
from offset_ledger.postgres.ledger.followed_columns import with_columns
from offset_ledger.postgres.ledger.input_checks import failing_rows, move_refused
from offset_ledger.postgres.ledger.sessions import session_arguments
from offset_ledger.postgres.ledger.staging import SCHEMA, StagingTables, row_columns
from offset_ledger.steps.validate.gate import run_gate
from offset_ledger.steps.validate.suite import Suite, load_suite
from offset_ledger.steps.validate.verdict import ExpectationResult, GateVerdict, compare

log = logging.getLogger(__name__)

_PAST_GATE = (State.VALIDATED, State.REJECTED, State.COMMITTED)


def validate(
    pipeline: Pipeline, batch_id: int, origin: Origin, session: Session | None = None
) -> tuple[Batch, GateVerdict | None]:
    """Validate a staged batch: failing rows go to quarantine, the batch passes or is rejected, in one transaction.

    A batch that is past this step already is returned as it is, with no verdict. Where an approved batch had to be
    staged again, the approval still counts if the same file and suite reject the same records for the same reasons.

    Raises:
        ConfigurationError: the suite file is missing or has mistakes.
        Fenced, StateConflict: another attempt has the batch.
        IncompleteStaging, DatabaseUnavailable: worth another try.
    """
    connection = get_connection(pipeline.target.connection)
    with open_ledger(pipeline, session) as session:
        with transaction(session) as cursor:
            batch = batches.read_batch_of(cursor, pipeline.name, batch_id)
            if batch.state in _PAST_GATE:
                return batch, None
            if batch.after:
                raise StateConflict(f"{batch} waits for that one, and is judged when that is committed")
            if batch.state is not State.STAGED:
                batches.refuse(batch, batch.attempt, State.STAGED)
            pipeline = with_columns(cursor, pipeline, batch_id)
            staging.check_columns(cursor, StagingTables(batch.attempt), pipeline.record)
            name = database.application_name(batch.attempt, "validate")
            database.rename_session(cursor, name)
        suite = read_suite(pipeline)
        # Records that a redrive refuses are in quarantine already: it cannot drain a topic into it.
        limit = 1.0 if batch.kind is BatchKind.REDRIVE else pipeline.quality.max_quarantined_share
        with fenced(connection, batch.attempt):
            verdict = run_gate(
                suite,
                session_arguments(connection, name),
                SCHEMA,
                StagingTables(batch.attempt).rows,
                session=session,
                row_count=batch.rows or 0,
                refused=batch.refused or 0,
                max_quarantined_share=limit,
                pipeline=pipeline,
                batch_id=batch_id,
            )
            wait_for(session, [batch_id], lambda cursor: batches.read_batch(cursor, batch_id, lock=True))
            batch, settled = _settle(session, pipeline, batch, verdict, origin)
            for note in settled.notes if settled else ():
                log.warning("batch %d: %s", batch_id, note)
            reach(Failpoint.AFTER_VALIDATE)
            return batch, settled


def _settle(
    session: Session, pipeline: Pipeline, batch: Batch, verdict: GateVerdict, origin: Origin
) -> tuple[Batch, GateVerdict | None]:
    """Move the failing rows and the batch; return no verdict if a concurrent attempt came first."""
    batch_id, tables = batch.batch_id, StagingTables(batch.attempt)
    with transaction(session) as cursor:
        current = batches.read_batch(cursor, batch_id, lock=True)
        if current.attempt == batch.attempt and current.state in _PAST_GATE:
            return current, None
        batches.lock(cursor, batch.attempt, State.STAGED)
        verdict = _with_history(cursor, pipeline, batch, tables, verdict)
        if pipeline.record.envelope and batch.refused and batch.kind is not BatchKind.REDRIVE:
            verdict = _with_truncation(cursor, tables, verdict)
        moved = _quarantine(cursor, pipeline.record, tables, verdict.quarantines)
        stored = json.loads(verdict.to_json()) | {"moved": moved, "great_expectations": verdict.gx_result}
        if not verdict.success:  # the input and the rules: everything in which another attempt may differ
            by_reason = staging.refused_by_reason(cursor, tables, limit=0)
            stored["judged"] = {
                "rows": batch.rows,
                "refused": batch.refused,
                "skipped": batch.skipped,
                "refused_by_reason": [[row["code"], row["path"], row["records"]] for row in by_reason],
                "config": pipeline.config_hash,
                "suite": verdict.suite_sha256,
                "reasons": list(verdict.reasons),
            }
        after = State.VALIDATED if verdict.success else State.REJECTED
        why = "; ".join(verdict.reasons) or None
        batches.move(
            cursor, batch.attempt, State.STAGED, after, origin,
            why=why, verdict=stored, validated_at=datetime.now(UTC),
        )  # fmt: skip
        if after is State.REJECTED:
            _reapply_approval(cursor, batch.attempt, stored["judged"], origin)
        return batches.read_batch(cursor, batch_id), verdict


def _with_history(
    cursor: Cursor, pipeline: Pipeline, batch: Batch, tables: StagingTables, verdict: GateVerdict
) -> GateVerdict:
    """The verdict with the comparison that the pipeline file asks for; the profile is kept in any case."""
    nullable = [column.name for column in pipeline.record.columns if column.nullable]
    profile = staging.measure_profile(cursor, tables, nullable)
    staging.keep_profile(cursor, tables, profile)
    rule = pipeline.quality.history
    if rule is None or batch.kind is not BatchKind.HEAD:
        return verdict
    history = compare(rule, profile, staging.recent_profiles(cursor, batch, rule.batches + 1))
    for each in history:
        log.info("batch %d: %s", batch.batch_id, each.text)
    return verdict.compared(history)


def _with_truncation(cursor: Cursor, tables: StagingTables, verdict: GateVerdict) -> GateVerdict:
    """The verdict, which rejects the batch where the table was truncated that its change events are of."""
    truncated = [each for each in staging.refused_by_reason(cursor, tables, limit=1) if each["code"] == "truncate"]
    if not truncated:
        return verdict
    reason = (
        f"all rows of the source's table were removed (TRUNCATE, record {truncated[0]['examples'][0]}), which deletes "
        "nothing here: approve the batch to let the rows stand, or delete them yourself first"
    )
    return replace(verdict, success=False, reasons=(*verdict.reasons, reason))


def _reapply_approval(cursor: Cursor, attempt: Attempt, identity: Mapping[str, Any], origin: Origin) -> None:
    """Apply an approval again: a batch that was staged again passes if a person approved one with the same identity."""
    cursor.run("validate/approval", batch_id=attempt.batch_id, judged=json.dumps(identity))
    if given := cursor.fetchone():
        why = f"staged again with the same verdict: the approval of {given['who']} still counts ({given['why']})"
        batches.move(cursor, attempt, State.REJECTED, State.VALIDATED, origin, why=why)
        log.info("batch %d: %s", attempt.batch_id, why)


def read_suite(pipeline: Pipeline) -> Suite | None:
    """The pipeline's suite, ``expectations/<name>.json`` in a folder above the pipeline file; None where it names none.

    Raises:
        ConfigurationError: there is no file of that name, or it has mistakes.
    """
    name = pipeline.quality.suite
    if name is None:
        return None
    if (path := nearest_above(pipeline.path, f"expectations/{name}.json")) is None:
        raise ConfigurationError(
            f"{pipeline.path}: quality.suite is {name!r}, but no folder above it has expectations/{name}.json; "
            "create it, or set quality.suite to null"
        )
    columns = [column for column, _ in row_columns(pipeline.record)]
    return load_suite(path, [*columns, "_value"])


def _quarantine(
    cursor: Cursor, record: RecordShape, tables: StagingTables, failed: Sequence[ExpectationResult]
) -> dict[str, int]:
    """Move the failing rows to the refusals, each once with all its reasons; returns how many by partition."""
    if not failed:
        return {}
    parts = []
    for place, finding in enumerate(failed):
        reason = {"path": ", ".join(finding.columns), "code": finding.type, "detail": finding.text}
        written = sql.SQL("reason") if finding.reasons_sql else sql.Literal(json.dumps(reason))
        parts.append(failing_rows(place, finding.reasons_sql or finding.quarantine_sql or "", written))
    moved = move_refused(cursor, record, parts, tables.identifier(tables.rows), tables.identifier(tables.refused))
    log.info("quarantined %d rows by %d expectations", sum(moved.values()), len(failed))
    return moved
