-- The newest committed head batch of the log that is old enough, the newest %(keep)s left out. Both look from the newest on.
SELECT batch_id FROM offset_ledger.batch
WHERE pipeline = %(pipeline)s AND topic_id = %(topic_id)s AND kind IN ('head', 'pruned') AND state = 'committed'
  AND ended_at < %(older_than)s AND -batch_id >= (
    SELECT -batch_id FROM offset_ledger.batch
    WHERE pipeline = %(pipeline)s AND topic_id = %(topic_id)s AND kind IN ('head', 'pruned') AND state = 'committed'
    ORDER BY -batch_id OFFSET %(keep)s LIMIT 1)
ORDER BY -batch_id LIMIT 1
