"""Judge one staging table: what fails is quarantined, rejects the batch, or is only said, as the suite asks."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import psycopg2
import psycopg2.extensions
from psycopg2 import sql

from offset_ledger.errors import DatabaseUnavailable, IncompleteStaging
from offset_ledger.quality.suite import Action, Expectation, Suite
from offset_ledger.quality.validation import Arguments, Validation, exception_of, live_rows, validate
from offset_ledger.quality.verdict import Finding, Verdict, observed_text, quarantined_share

Session = psycopg2.extensions.connection


def judge(
    suite: Suite | None,
    arguments: Arguments,
    schema: str,
    table: str,
    *,
    row_count: int,
    refused: int = 0,
    max_quarantined_share: float = 1.0,
) -> Verdict:
    """The verdict on a staging table of ``row_count`` rows, delete markers included, that nobody writes to any more.

    ``arguments`` are those of ``psycopg2.connect``; the sessions opened here carry their application_name. Where no
    row is to be judged (all are delete markers, or there are none) nothing can fail: every expectation passes
    with nothing evaluated, and only the share of refused records counts.

    Raises:
        IncompleteStaging: the table is missing or holds another number of rows (a crash empties an UNLOGGED table).
        DatabaseUnavailable: a session was lost; no verdict.
    """
    started = time.monotonic()
    try:
        with closing(psycopg2.connect(**dict(arguments))) as session:  # type: ignore[call-overload]
            rows, deleted = _count_rows(session, schema, table, row_count)
            validation = None
            if suite is not None and rows:
                validation = validate(suite, arguments, live_rows(session, schema, table))
            findings, quarantined = _held(session, _findings(suite, validation))
    except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
        raise DatabaseUnavailable(f"the session that judges {schema}.{table} was lost ({_line(error)})") from error
    share = quarantined_share(rows, deleted, refused, quarantined)
    reasons = [finding.summary for finding in findings if finding.rejects]
    if share > max_quarantined_share:
        reasons.append(_share_text(refused, quarantined, share, max_quarantined_share))
    return Verdict(
        success=not reasons,
        findings=findings,
        rows=rows,
        deleted=deleted,
        refused=refused,
        quarantined=quarantined,
        max_quarantined_share=max_quarantined_share,
        reasons=tuple(reasons),
        notes=tuple(_notes(findings)),
        seconds=round(time.monotonic() - started, 3),
        suite=suite.name if suite else None,
        suite_sha256=suite.sha256 if suite else None,
        gx_version=validation.version if validation else None,
        gx_result=validation.result if validation else {},
    )


def _count_rows(session: Session, schema: str, table: str, expected: int) -> tuple[int, int]:
    query = "SELECT count(*) FILTER (WHERE NOT _deleted), count(*) FILTER (WHERE _deleted) FROM {}"
    try:
        with session, session.cursor() as cursor:
            cursor.execute(sql.SQL(query).format(sql.Identifier(schema, table)))
            ((rows, deleted),) = cursor.fetchall()
    except psycopg2.errors.UndefinedTable:
        raise IncompleteStaging(f"{schema}.{table}: expected {expected} rows, found no table; stage again") from None
    if rows + deleted != expected:
        raise IncompleteStaging(f"{schema}.{table}: expected {expected} rows, found {rows + deleted}; stage again")
    return rows, deleted


def _findings(suite: Suite | None, validation: Validation | None) -> list[Finding]:
    expectations = suite.expectations if suite is not None else ()
    if validation is None:
        return [_finding(expectation, success=True, evaluated=0) for expectation in expectations]
    return [
        _judged(expectation, validation.by_position.get(position), validation.failing_rows.get(position))
        for position, expectation in enumerate(expectations)
    ]


def _judged(expectation: Expectation, result: Mapping[str, Any] | None, failing_rows: str | None) -> Finding:
    if result is None:
        return _finding(expectation, success=False, exception="it returned no result for this expectation")
    detail, exception = result["result"], exception_of(result)
    return _finding(
        expectation,
        success=result["success"] is True and exception is None,
        evaluated=detail.get("element_count"),
        unexpected=detail.get("unexpected_count"),
        unexpected_percent=detail.get("unexpected_percent"),
        observed=observed_text(detail.get("observed_value")),
        exception=exception,
        quarantine_sql=failing_rows if exception is None else None,
    )


def _finding(expectation: Expectation, **found: Any) -> Finding:
    return Finding(
        expectation.line, expectation.type, expectation.columns, expectation.action, expectation.text, **found
    )


def _held(session: Session, findings: Sequence[Finding]) -> tuple[tuple[Finding, ...], int]:
    """Hold the queries of the failing rows against their counts, for rows are only moved when both agree; and how many
    rows those that agree select together, each row once.
    """
    selected, together = _count(session, findings)
    held = tuple(_hold(finding, selected.get(place)) for place, finding in enumerate(findings))
    if held != tuple(findings):
        _, together = _count(session, held)
    return held, together


def _hold(finding: Finding, selected: int | None) -> Finding:
    if finding.quarantine_sql is None or finding.unexpected == selected:
        return finding
    text = f"it counted {finding.unexpected} failing rows and its query selects {selected}"
    return replace(finding, exception=text, quarantine_sql=None)


def _count(session: Session, findings: Sequence[Finding]) -> tuple[dict[int, int], int]:
    """How many rows the query of each finding selects, by its place, and all of them together: in one pass each."""
    queries = [
        sql.SQL("SELECT {} AS place, * FROM ({}) AS f").format(sql.Literal(place), sql.SQL(finding.quarantine_sql))
        for place, finding in enumerate(findings)
        if finding.quarantine_sql is not None
    ]
    if not queries:
        return {}, 0
    statement = (
        "WITH failing AS MATERIALIZED ({}) SELECT place, count(*) FROM failing GROUP BY place"
        " UNION ALL SELECT NULL, count(*) FROM (SELECT DISTINCT _partition, _offset FROM failing) AS rows"
    )
    with session, session.cursor() as cursor:
        cursor.execute(sql.SQL(statement).format(sql.SQL(" UNION ALL ").join(queries)))
        counts = {place: int(count) for place, count in cursor.fetchall()}
    return {place: counts.get(place, 0) for place in range(len(findings))}, counts[None]


def _notes(findings: Iterable[Finding]) -> Iterable[str]:
    for finding in findings:
        if finding.quarantine_sql is not None:
            yield f"quarantine: {finding.summary}"
        elif not finding.success and finding.action is Action.WARN:
            yield f"warning: {finding.summary}"


def _share_text(refused: int, quarantined: int, share: float, limit: float) -> str:
    return (
        f"quarantined share {share:.4%} is above the limit of {limit:.4%} "
        f"({refused} refused by the decoder, {quarantined} failed quarantine expectations)"
    )


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
