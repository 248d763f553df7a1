-- When a commit last moved the pipeline's cursors on this topic, and so the group that mirrors them; replays move none.
SELECT max(ended_at)
FROM offset_ledger.batch
WHERE pipeline = %(pipeline)s AND topic_id = %(topic_id)s AND state = 'committed' AND kind = 'head'
