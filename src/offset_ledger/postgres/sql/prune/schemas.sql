-- The next schemas that records of the pipeline were written with, and which of them go: what nothing in the ledger names, if the
-- pruned history, whose records may name any, is gone from the topic too.
SELECT s.schema_id AS id, s.first_seen_at < %(older_than)s
       AND NOT EXISTS (SELECT FROM offset_ledger.batch_schema m JOIN offset_ledger.batch b USING (batch_id)
                       WHERE m.schema_id = s.schema_id AND b.pipeline = s.pipeline)
       AND NOT EXISTS (SELECT FROM offset_ledger.schema_boundary m JOIN offset_ledger.batch b USING (batch_id)
                       WHERE m.schema_id = s.schema_id AND b.pipeline = s.pipeline)
       AND NOT EXISTS (SELECT FROM offset_ledger.quarantine q WHERE (q.pipeline, q.schema_id) = (s.pipeline, s.schema_id))
       AND NOT EXISTS (SELECT FROM offset_ledger.followed_column f WHERE (f.pipeline, f.schema_id) = (s.pipeline, s.schema_id))
       AND NOT EXISTS (SELECT FROM offset_ledger.batch b
                       WHERE b.pipeline = s.pipeline AND b.state NOT IN ('committed', 'abandoned'))
       AND NOT EXISTS (
           SELECT FROM offset_ledger.pipeline p
           JOIN offset_ledger.batch b ON b.pipeline = p.pipeline AND b.kind = 'pruned'
           JOIN offset_ledger.batch_range r ON r.batch_id = b.batch_id
           LEFT JOIN LATERAL (SELECT n.log_start FROM offset_ledger.batch_range n
                              WHERE (n.pipeline, n.topic_id, n.partition) = (p.pipeline, p.topic_id, r.partition)
                                AND n.committed_until IS NOT NULL
                              ORDER BY n.committed_until DESC LIMIT 1) AS newest ON true
           WHERE p.pipeline = s.pipeline AND split_part(b.topic_id, '/', 1) = split_part(p.topic_id, '/', 1)
             AND r.until_offset > coalesce(newest.log_start, 0)) AS goes
FROM offset_ledger.writer_schema s
WHERE s.pipeline = %(pipeline)s AND s.schema_id > %(after)s ORDER BY s.schema_id LIMIT %(limit)s
