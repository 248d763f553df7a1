SELECT batch_id, partition, from_offset, until_offset
FROM offset_ledger.batch_range r JOIN offset_ledger.batch b USING (batch_id, pipeline, topic_id)
JOIN offset_ledger.pipeline USING (pipeline, topic_id)
WHERE pipeline = %(pipeline)s AND b.state = 'committed'
  AND partition = ANY(%(partitions)s)
ORDER BY batch_id, partition
