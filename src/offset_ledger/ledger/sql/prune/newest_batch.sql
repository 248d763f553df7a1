-- The newest committed head batch of the log that is old enough, the newest %(keep)s left out.
SELECT batch_id FROM (
    SELECT batch_id, ended_at FROM offset_ledger.batch
    WHERE pipeline = %(pipeline)s AND topic_id = %(topic_id)s AND kind IN ('head', 'pruned') AND state = 'committed'
    ORDER BY -batch_id OFFSET %(keep)s
) AS head
WHERE ended_at < %(older_than)s ORDER BY -batch_id LIMIT 1
