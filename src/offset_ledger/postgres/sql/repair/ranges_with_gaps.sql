SELECT batch_id, partition, from_offset, until_offset, gap
FROM offset_ledger.batch_range JOIN offset_ledger.batch USING (batch_id, pipeline, topic_id)
WHERE pipeline = %(pipeline)s AND topic_id = (SELECT topic_id FROM offset_ledger.pipeline WHERE pipeline = %(pipeline)s)
  AND state = 'committed' AND gap > 0
ORDER BY batch_id, partition
