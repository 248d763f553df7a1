SELECT partition, committed_until AS boundary, leader_epoch
FROM offset_ledger.batch_range JOIN offset_ledger.pipeline USING (pipeline, topic_id)
WHERE pipeline = %(pipeline)s AND partition = ANY(%(partitions)s) AND committed_until IS NOT NULL
UNION ALL
SELECT partition, start_offset, leader_epoch
FROM offset_ledger.beginning JOIN offset_ledger.pipeline USING (pipeline, topic_id)
WHERE pipeline = %(pipeline)s AND partition = ANY(%(partitions)s)
