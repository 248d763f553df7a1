-- The schemas with which ranges of the batch begin: where the batch before it has ended, or an attempt at it has begun to read.
SELECT s.partition, s.schema_id, s.message, s.first_offset
FROM offset_ledger.batch_range r
JOIN offset_ledger.batch_range e
    ON (e.pipeline, e.topic_id, e.partition, e.committed_until) = (r.pipeline, r.topic_id, r.partition, r.from_offset)
JOIN offset_ledger.schema_boundary s ON (s.batch_id, s.partition, s.first_offset) = (e.batch_id, e.partition, r.from_offset)
WHERE r.batch_id = %(batch_id)s AND s.ends
UNION
SELECT partition, schema_id, message, first_offset FROM offset_ledger.schema_boundary
WHERE batch_id = %(batch_id)s AND NOT ends
ORDER BY 1, 2, 3
