SELECT b.batch_id, b.kind, b.state, b.validated_at AS validated_at, b.ended_at, p.newest,
       coalesce(p.records, b.rows + b.refused + b.skipped, 0) AS records,
       b.verdict - 'great_expectations' AS verdict, coalesce(q.reasons, '{}') AS reasons
FROM offset_ledger.batch b LEFT JOIN offset_ledger.batch_profile p USING (batch_id)
LEFT JOIN LATERAL (
    SELECT jsonb_object_agg(reason, found) AS reasons FROM (
        SELECT CASE WHEN r->>'code' ~ '^expect_' THEN r->>'detail' ELSE r->>'code' END AS reason,
               count(DISTINCT quarantine_id) AS found
        FROM offset_ledger.quarantine, jsonb_array_elements(reasons) AS r
        WHERE batch_id = b.batch_id GROUP BY 1) AS by_reason) AS q ON b.state = 'committed'
WHERE b.pipeline = %(pipeline)s AND b.verdict IS NOT NULL AND b.validated_at IS NOT NULL
  AND (b.ended_at >= coalesce(%(since)s::timestamptz, '-infinity') AND b.ended_at < coalesce(%(until)s::timestamptz, 'infinity')
       OR b.ended_at IS NULL AND b.validated_at >= coalesce(%(since)s::timestamptz, '-infinity')
          AND b.validated_at < coalesce(%(until)s::timestamptz, 'infinity'))
ORDER BY -b.batch_id LIMIT %(limit)s
