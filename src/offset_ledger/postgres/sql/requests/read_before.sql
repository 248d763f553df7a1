-- Ranges that may hold records of the window, and those that the log starts in, or that end where it starts.
SELECT partition, from_offset, until_offset, min_timestamp, max_timestamp
FROM offset_ledger.batch_range r JOIN offset_ledger.batch b USING (batch_id, pipeline, topic_id)
JOIN offset_ledger.pipeline USING (pipeline, topic_id)
JOIN unnest(%(partitions)s::integer[], %(log_starts)s::bigint[]) AS log (partition, log_start) USING (partition)
WHERE pipeline = %(pipeline)s AND b.state = 'committed'
  AND (coalesce(min_timestamp, max_timestamp) IS NOT NULL
           AND coalesce(min_timestamp < %(until)s, true) AND coalesce(max_timestamp >= %(since)s, true)
       OR from_offset < log.log_start AND until_offset >= log.log_start)
ORDER BY partition, from_offset
