SELECT batch_id FROM offset_ledger.redrive JOIN offset_ledger.batch USING (batch_id)
WHERE pipeline = %(pipeline)s AND state NOT IN ('committed', 'abandoned')
  AND (reason, since, most) IS NOT DISTINCT FROM (%(reason)s::text, %(since)s::timestamptz, %(limit)s::bigint)
ORDER BY batch_id LIMIT 1
