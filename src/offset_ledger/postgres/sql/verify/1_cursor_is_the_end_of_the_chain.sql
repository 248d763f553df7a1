SELECT format('partition %%s: the cursor is at %%s, the committed head ranges end at %%s', c.partition, c.next_offset, r.until)
FROM offset_ledger.cursor c
JOIN LATERAL (SELECT max(committed_until) AS until FROM offset_ledger.batch_range r
              WHERE (r.pipeline, r.topic_id, r.partition) = (c.pipeline, c.topic_id, c.partition)) AS r ON true
WHERE c.pipeline = %(pipeline)s AND c.next_offset IS DISTINCT FROM r.until
