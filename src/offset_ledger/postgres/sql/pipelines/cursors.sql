SELECT partition, coalesce(c.next_offset, b.start_offset) AS next_offset, coalesce(c.leader_epoch, b.leader_epoch) AS leader_epoch
FROM offset_ledger.beginning b LEFT JOIN offset_ledger.cursor c USING (pipeline, topic_id, partition)
WHERE pipeline = %(pipeline)s AND topic_id = %(topic_id)s ORDER BY partition
