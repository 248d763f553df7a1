-- At most one more is ahead of it, which begins where it will end: at its ends, and in other partitions at their cursors.
SELECT format('batches %%s are open head batches at once', string_agg(batch_id::text, ', '))
FROM offset_ledger.batch
WHERE pipeline = %(pipeline)s AND kind = 'head' AND state NOT IN ('committed', 'abandoned') AND after IS NULL
HAVING count(*) > 1
UNION ALL
SELECT format('batch %%s waits for batch %%s, which is %%s', a.batch_id, b.batch_id, b.state)
FROM offset_ledger.batch a JOIN offset_ledger.batch b ON b.batch_id = a.after
WHERE a.pipeline = %(pipeline)s AND (b.kind <> 'head' OR b.after IS NOT NULL OR b.state NOT IN ('staged', 'validated', 'rejected'))
UNION ALL
SELECT format('batch %%s partition %%s begins at %%s, and the batch before it ends at %%s', a.batch_id, r.partition, r.from_offset,
              at)
FROM offset_ledger.batch a
JOIN offset_ledger.batch_range r USING (batch_id)
LEFT JOIN offset_ledger.batch_range b ON (b.batch_id, b.partition) = (a.after, r.partition)
LEFT JOIN offset_ledger.cursor c ON (c.pipeline, c.topic_id, c.partition) = (r.pipeline, r.topic_id, r.partition)
LEFT JOIN offset_ledger.beginning s ON (s.pipeline, s.topic_id, s.partition) = (r.pipeline, r.topic_id, r.partition)
CROSS JOIN LATERAL coalesce(b.until_offset, c.next_offset, s.start_offset) AS at
WHERE a.pipeline = %(pipeline)s AND a.after IS NOT NULL AND r.from_offset IS DISTINCT FROM at
