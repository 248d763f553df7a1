-- Snapshots before the newest one whose last stable offsets the pipeline has all passed: no later offset asks for them.
DELETE FROM offset_ledger.topic_look
WHERE pipeline = %(pipeline)s AND seen_at < (
    SELECT max(l.seen_at) FROM offset_ledger.topic_look l
    WHERE l.pipeline = %(pipeline)s AND l.topic_id = %(topic_id)s AND NOT EXISTS (
        SELECT FROM unnest(l.last_stables, %(next_offsets)s::bigint[]) AS p(last_stable, next_offset)
        WHERE last_stable > coalesce(next_offset, 0)))
