-- Of unresolved records, those that are dismissed to undo that, or those that are not; locked against a redrive's outcome.
SELECT q.quarantine_id, q.partition, q."offset",
       (SELECT r.batch_id FROM offset_ledger.redrive_record r
        WHERE r.quarantine_id = q.quarantine_id AND r.outcome IS NULL) AS held_by
FROM offset_ledger.quarantine q
WHERE q.pipeline = %(pipeline)s AND q.resolved_by IS NULL AND (q.dismissed_by IS NOT NULL) = %(undo)s
  AND (%(offsets)s::bigint[] IS NULL OR q.partition = %(partition)s AND q."offset" = ANY(%(offsets)s::bigint[]))
  AND (%(reason)s::text IS NULL
       OR coalesce(q.retried_reasons, q.reasons) @> jsonb_build_array(jsonb_build_object('code', %(reason)s::text)))
  AND (%(since)s::timestamptz IS NULL OR q.quarantined_at >= %(since)s)
ORDER BY q.quarantine_id FOR UPDATE OF q
