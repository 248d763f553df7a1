SELECT p.records, p.rows, p.nulls, p.newest, p.min_publish_at, p.max_publish_at
FROM offset_ledger.batch b JOIN offset_ledger.batch_profile p USING (batch_id)
WHERE b.pipeline = %(pipeline)s AND b.topic_id = %(topic_id)s AND b.kind = 'head' AND b.state = 'committed'
  AND -b.batch_id > -%(batch_id)s::bigint
ORDER BY -b.batch_id LIMIT %(limit)s
