INSERT INTO offset_ledger.cursor (pipeline, topic_id, partition, next_offset, leader_epoch, batch_id)
SELECT pipeline, topic_id, partition, until_offset, leader_epoch, batch_id
FROM offset_ledger.batch_range WHERE batch_id = %(batch_id)s
ON CONFLICT (pipeline, topic_id, partition) DO UPDATE SET
    next_offset = excluded.next_offset, leader_epoch = excluded.leader_epoch,
    batch_id = excluded.batch_id, updated_at = now()
