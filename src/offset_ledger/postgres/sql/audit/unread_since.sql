-- Per partition the moment before which nothing from the cursor on was compacted.
SELECT s.partition,
       offset_ledger.not_compacted_before(p.pipeline, p.topic_id, s.partition, coalesce(c.next_offset, s.start_offset)) AS since
FROM offset_ledger.pipeline p
JOIN offset_ledger.beginning s USING (pipeline, topic_id)
LEFT JOIN offset_ledger.cursor c USING (pipeline, topic_id, partition)
WHERE p.pipeline = %(pipeline)s
