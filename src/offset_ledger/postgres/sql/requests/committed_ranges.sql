SELECT DISTINCT batch_id, partition, r.from_offset, r.until_offset
FROM offset_ledger.batch_range r JOIN offset_ledger.batch b USING (batch_id, pipeline, topic_id)
JOIN offset_ledger.pipeline USING (pipeline, topic_id)
JOIN unnest(%(partitions)s::integer[], %(from_offsets)s::bigint[], %(until_offsets)s::bigint[])
    AS wanted (partition, from_offset, until_offset) USING (partition)
WHERE pipeline = %(pipeline)s AND b.state = 'committed'
  AND r.from_offset < wanted.until_offset AND r.until_offset > wanted.from_offset
ORDER BY batch_id, partition
