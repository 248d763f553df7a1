-- What the pipeline has committed of the topic as it is now, also below an offset where its log was truncated.
SELECT b.partition, min(b.start_offset) AS from_offset, max(coalesce(c.next_offset, b.start_offset)) AS until_offset
FROM offset_ledger.beginning b
JOIN offset_ledger.pipeline p ON p.pipeline = b.pipeline
    AND split_part(p.topic_id, '/', 1) = split_part(b.topic_id, '/', 1)
LEFT JOIN offset_ledger.cursor c ON (c.pipeline, c.topic_id, c.partition) = (p.pipeline, p.topic_id, b.partition)
WHERE b.pipeline = %(pipeline)s
GROUP BY b.partition
HAVING min(b.start_offset) < max(coalesce(c.next_offset, b.start_offset))
ORDER BY b.partition
