-- Records that no redrive has tried yet come first, so that a limit does not try the same ones for ever.
CREATE TEMPORARY TABLE redrive_choice ON COMMIT DROP AS
SELECT q.quarantine_id, q.partition, q."offset", held.batch_id AS held_by,
       row_number() OVER (PARTITION BY held.batch_id IS NULL ORDER BY q.retried_by NULLS FIRST, q.quarantine_id) AS place
FROM offset_ledger.quarantine q
LEFT JOIN offset_ledger.redrive_record held ON held.quarantine_id = q.quarantine_id AND held.outcome IS NULL
WHERE q.pipeline = %(pipeline)s AND q.topic_id = %(topic_id)s AND q.resolved_by IS NULL AND q.dismissed_by IS NULL
  AND (%(reason)s::text IS NULL
       OR coalesce(q.retried_reasons, q.reasons) @> jsonb_build_array(jsonb_build_object('code', %(reason)s::text)))
  AND (%(since)s::timestamptz IS NULL OR q.quarantined_at >= %(since)s)
