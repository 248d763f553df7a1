"""Validate one staging table: what fails is quarantined, rejects the batch or is only reported, as the suite says."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace

import psycopg2
from psycopg2 import sql

from offset_ledger.base.units import counted, show_share
from offset_ledger.errors import DatabaseUnavailable, IncompleteStaging, one_line
from offset_ledger.pipeline_file.pipeline import OnConflict, Pipeline
from offset_ledger.postgres.ledger.database import named_sql, transaction
from offset_ledger.postgres.ledger.input_checks import Judged, judge
from offset_ledger.postgres.ledger.sessions import Arguments, Session, open_session
from offset_ledger.postgres.ledger.sqlstates import explained
from offset_ledger.postgres.table.conflicts import Conflict, find_conflicts
from offset_ledger.steps.validate.great_expectations_run import Validation, exception_of, live_rows, run_suite
from offset_ledger.steps.validate.suite import Suite, SuiteAction
from offset_ledger.steps.validate.verdict import ExpectationResult, GateVerdict, observed_text, quarantined_share


def run_gate(
    suite: Suite | None,
    arguments: Arguments,
    schema: str,
    table: str,
    *,
    row_count: int,
    refused: int = 0,
    max_quarantined_share: float = 1.0,
    session: Session | None = None,
    pipeline: Pipeline | None = None,
    batch_id: int = 0,
) -> GateVerdict:
    """The verdict on a staging table of ``row_count`` rows, delete markers included, that nobody writes to any more.

    Postgres judges the columns of the pipeline that it alone can read; the suite does not see the rows that it refuses.
    With ``on_conflict: quarantine``, conflicts are looked for last, among the rows that are not quarantined yet; in a
    ``session`` that is given, their coordinates stay there.

    ``arguments`` are those of ``psycopg2.connect`` for Great Expectations, which has sessions of its own, and for ours
    where no ``session`` is given. Without a row to validate (all are delete markers, or there are none) nothing can
    fail: every expectation passes with nothing evaluated, and only the share of refused records counts.

    Raises:
        IncompleteStaging: the table is missing or has another number of rows (a crash empties an UNLOGGED table).
        DatabaseUnavailable: a session was lost; no verdict.
        ConfigurationError, TransientError: as the SQLSTATE says; no verdict.
    """
    started = time.monotonic()
    with (
        _lost_session(f"{schema}.{table}"),
        nullcontext(session) if session else closing(open_session(arguments)) as session,
    ):
        rows, deleted = _count_rows(session, schema, table, row_count)
        judged = _judged(session, sql.Identifier(schema, table), pipeline, rows)
        validation, valid = None, rows - _count(session, [finding for finding, _ in judged])
        if suite is not None and valid:
            validation = run_suite(suite, arguments, live_rows(session, schema, table, [each for _, each in judged]))
        findings = (*(finding for finding, _ in judged), *_findings(session, suite, validation))
        staged = sql.Identifier(schema, table)
        findings += tuple(_conflicts(session, staged, pipeline, batch_id, rows + deleted, findings))
        failing = [finding for finding in findings if finding.quarantine_sql]
        # One alone was counted a moment ago.
        quarantined = failing[0].unexpected or 0 if len(failing) == 1 else _count(session, failing)
    share = quarantined_share(rows, deleted, refused, quarantined)
    reasons = [each.summary for each in findings if each.rejects]
    if share > max_quarantined_share:
        reasons.append(
            f"quarantined share {show_share(share, 4)} is above the limit of {show_share(max_quarantined_share, 4)} "
            f"({refused} refused by the decoder, {quarantined} failed quarantine expectations)"
        )
    seconds = round(time.monotonic() - started, 3)
    return GateVerdict(
        success=not reasons,
        findings=findings,
        rows=rows,
        deleted=deleted,
        refused=refused,
        quarantined=quarantined,
        max_quarantined_share=max_quarantined_share,
        reasons=tuple(reasons),
        notes=tuple(each.note for each in findings if each.note),
        seconds=seconds,
        suite=suite.name if suite else None,
        suite_sha256=suite.sha256 if suite else None,
        gx_version=validation.version if validation else None,
        gx_result=validation.result if validation else {},
    )


@contextmanager
def _lost_session(table: str) -> Iterator[None]:
    """Errors of the session as errors that say there is no verdict."""
    try:
        yield
    except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
        lost = DatabaseUnavailable(f"the session that validates {table} was lost ({one_line(error)})")
        raise explained(error, f"validating {table}") or lost from error


def _count_rows(session: Session, schema: str, table: str, expected: int) -> tuple[int, int]:
    try:
        with transaction(session) as cursor:
            cursor.execute(sql.SQL(named_sql("validate/count_rows")).format(staging=sql.Identifier(schema, table)))
            ((rows, deleted),) = cursor.fetchall()
    except psycopg2.errors.UndefinedTable:
        raise IncompleteStaging(
            f"{schema}.{table}: expected {counted(expected, 'row')}, found no table; stage again"
        ) from None
    if rows + deleted != expected:
        raise IncompleteStaging(
            f"{schema}.{table}: expected {counted(expected, 'row')}, found {rows + deleted}; stage again"
        )
    return rows, deleted


def _judged(
    session: Session, staging: sql.Identifier, pipeline: Pipeline | None, rows: int
) -> list[tuple[ExpectationResult, str]]:
    """Return the columns with texts that Postgres refuses, each with why in SQL; asks nothing without such columns."""
    if pipeline is None or not any(column.type.judged for column in pipeline.record.all_columns):
        return []
    with transaction(session) as cursor:
        judged = judge(cursor, staging, pipeline.record)
    return [
        (_by_postgres("input", (each.name,), f"{each.name} is a value of {each.type}", each, rows), each.error)
        for each in judged
    ]


def _by_postgres(
    type_: str, columns: tuple[str, ...], text: str, refused: Judged | Conflict, rows: int
) -> ExpectationResult:
    return ExpectationResult(
        line=0,
        type=type_,
        columns=columns,
        action=SuiteAction.QUARANTINE,
        text=text,
        success=False,
        evaluated=rows,
        unexpected=refused.failing,
        unexpected_percent=100 * refused.failing / rows,
        quarantine_sql=refused.coordinates_sql,
        reasons_sql=refused.reasons_sql,
    )


def _conflicts(
    session: Session,
    staging: sql.Identifier,
    pipeline: Pipeline | None,
    batch_id: int,
    rows: int,
    findings: Sequence[ExpectationResult],
) -> Iterator[ExpectationResult]:
    """The unique constraints and foreign keys that rows would break which no finding quarantines."""
    if not rows or pipeline is None or pipeline.target.on_conflict is OnConflict.FAIL:
        return
    refused = [sql.SQL(f"({each.quarantine_sql})") for each in findings if each.quarantine_sql]
    valid: sql.Composable = staging
    if refused:
        query = sql.SQL(named_sql("conflicts/valid_rows"))
        valid = query.format(staging=staging, refused=sql.SQL(" UNION ").join(refused))
    try:
        with transaction(session) as cursor:
            conflicts = find_conflicts(cursor, pipeline, valid, batch_id)
    except psycopg2.DataError:  # an expression of the table refuses a value: the commit says so
        return
    for each in conflicts:
        yield _by_postgres("conflict", each.columns, each.rule, each, rows)


def _findings(session: Session, suite: Suite | None, validation: Validation | None) -> Iterator[ExpectationResult]:
    """The result of each expectation, with its query only if that selects as many rows as were counted."""
    for position, each in enumerate(suite.expectations if suite is not None else ()):
        blank = ExpectationResult(each.line, each.type, each.columns, each.action, each.text, success=False)
        if validation is None:
            yield replace(blank, success=True, evaluated=0)
        elif (result := validation.by_position.get(position)) is None:
            yield replace(blank, exception="it returned no result for this expectation")
        else:
            detail, exception = result["result"], exception_of(result)
            finding = replace(
                blank,
                success=result["success"] is True and exception is None,
                evaluated=detail.get("element_count"),
                unexpected=detail.get("unexpected_count"),
                unexpected_percent=detail.get("unexpected_percent"),
                observed=observed_text(detail.get("observed_value")),
                exception=exception,
                quarantine_sql=validation.failing_rows.get(position) if exception is None else None,
            )
            if finding.quarantine_sql and (selected := _count(session, [finding])) != finding.unexpected:
                text = f"it counted {finding.unexpected} failing rows and its query selects {selected}"
                finding = replace(finding, exception=text, quarantine_sql=None)
            yield finding


def _count(session: Session, findings: list[ExpectationResult]) -> int:
    """Return how many rows the queries of these findings select together, each row once."""
    if not findings:
        return 0
    union = sql.SQL(" UNION ").join(sql.SQL(f"({finding.quarantine_sql})") for finding in findings)
    with transaction(session) as cursor:
        cursor.execute(sql.SQL(named_sql("validate/count_failing")).format(failing=union))
        ((count,),) = cursor.fetchall()
    return int(count)
