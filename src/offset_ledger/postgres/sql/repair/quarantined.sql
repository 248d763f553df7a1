-- By reason, as it stands now; the line without a reason is the whole, for a record may have several.
WITH chosen AS (
    SELECT q.quarantine_id, q.partition, q."offset", q.quarantined_at, held.batch_id AS held_by,
           reason->>'code' AS code, reason->>'path' AS path, reason->>'detail' AS detail,
           row_number() OVER (PARTITION BY reason->>'code', reason->>'path' ORDER BY q.quarantine_id) AS place
    FROM offset_ledger.quarantine q
    CROSS JOIN jsonb_array_elements(coalesce(q.retried_reasons, q.reasons)) AS reason
    LEFT JOIN offset_ledger.redrive_record held ON held.quarantine_id = q.quarantine_id AND held.outcome IS NULL
    WHERE q.pipeline = %(pipeline)s AND (q.resolved_by IS NOT NULL) = %(resolved)s AND (q.dismissed_by IS NOT NULL) = %(dismissed)s
      AND (%(reason)s::text IS NULL OR reason->>'code' = %(reason)s)
      AND (%(since)s::timestamptz IS NULL OR q.quarantined_at >= %(since)s)
)
SELECT code, path, count(DISTINCT quarantine_id) AS records,
       count(DISTINCT quarantine_id) FILTER (WHERE held_by IS NOT NULL) AS in_redrive,
       min(quarantined_at) AS first, max(quarantined_at) AS last,
       array_agg(format('%%s:%%s', partition, "offset") ORDER BY quarantine_id) FILTER (WHERE place <= %(limit)s) AS examples,
       left(min(detail) FILTER (WHERE place = 1), 80) AS such_as
FROM chosen GROUP BY GROUPING SETS ((code, path), ())
ORDER BY records DESC, code NULLS FIRST, path
