-- Newest first: by batch, for which there is an index, and within a batch by id. Sizes are read without the bytes.
SELECT q.quarantine_id, q.batch_id, q.partition, q."offset", q."timestamp", q.quarantined_at,
       coalesce(q.retried_reasons, q.reasons) AS reasons, q.retried_by, q.resolved_by, q.dismissed_by,
       octet_length(q.key) AS key_bytes, octet_length(q.value) AS value_bytes
FROM offset_ledger.batch b JOIN offset_ledger.quarantine q ON q.batch_id = b.batch_id
WHERE b.pipeline = %(pipeline)s AND -b.batch_id >= -%(before_batch)s::bigint
  AND (q.batch_id < %(before_batch)s::bigint OR q.quarantine_id < %(before_id)s::bigint)
  AND CASE %(state)s WHEN 'unresolved' THEN q.resolved_by IS NULL AND q.dismissed_by IS NULL
                     WHEN 'dismissed' THEN q.dismissed_by IS NOT NULL ELSE q.resolved_by IS NOT NULL END
  AND (%(partition)s::int IS NULL OR q.partition = %(partition)s)
  AND (%(reason)s::text IS NULL OR coalesce(q.retried_reasons, q.reasons) @> jsonb_build_array(jsonb_build_object('code', %(reason)s::text)))
  AND (%(since)s::timestamptz IS NULL OR q.quarantined_at >= %(since)s)
  AND (%(until)s::timestamptz IS NULL OR q.quarantined_at < %(until)s)
ORDER BY -b.batch_id, q.quarantine_id DESC LIMIT %(limit)s
