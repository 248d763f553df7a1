SELECT partition, from_offset, until_offset, min_timestamp, max_timestamp
FROM offset_ledger.batch_range r JOIN offset_ledger.batch b USING (batch_id, pipeline, topic_id)
JOIN offset_ledger.pipeline USING (pipeline, topic_id)
WHERE pipeline = %(pipeline)s AND b.state = 'committed'
ORDER BY partition, from_offset
