-- What is not among the refusals has passed: it stands in the table, lost to a newer row, or is a tombstone to skip.
WITH settled AS (
    UPDATE offset_ledger.redrive_record AS r
    SET outcome = CASE WHEN again.reasons IS NULL THEN 'resolved' ELSE 'refused' END, reasons = again.reasons
    FROM offset_ledger.quarantine q
    LEFT JOIN {refused} AS again ON again._partition = q.partition AND again._offset = q."offset"
    WHERE r.batch_id = %(batch_id)s AND q.quarantine_id = r.quarantine_id
    RETURNING r.quarantine_id, r.outcome, r.reasons
)
UPDATE offset_ledger.quarantine AS q
SET resolved_by = CASE s.outcome WHEN 'resolved' THEN %(batch_id)s END,
    retried_by = CASE s.outcome WHEN 'refused' THEN %(batch_id)s ELSE q.retried_by END,
    retried_reasons = coalesce(s.reasons, q.retried_reasons)
FROM settled AS s WHERE q.quarantine_id = s.quarantine_id
