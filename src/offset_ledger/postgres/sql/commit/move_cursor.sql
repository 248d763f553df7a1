INSERT INTO offset_ledger.cursor AS c
    (pipeline, topic_id, partition, next_offset, leader_epoch, batch_id, newest, max_publish_at)
SELECT r.pipeline, r.topic_id, r.partition, r.until_offset, r.leader_epoch, r.batch_id, r.max_timestamp, p.max_publish_at
FROM offset_ledger.batch_range r LEFT JOIN offset_ledger.batch_profile p USING (batch_id)
WHERE r.batch_id = %(batch_id)s
ON CONFLICT (pipeline, topic_id, partition) DO UPDATE SET
    next_offset = excluded.next_offset, leader_epoch = excluded.leader_epoch,
    batch_id = excluded.batch_id, newest = greatest(c.newest, excluded.newest),
    max_publish_at = greatest(c.max_publish_at, excluded.max_publish_at), updated_at = now()
