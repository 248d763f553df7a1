-- What the log looked like is kept with each range: the open head batch saw it last, else the one that moved the cursor.
SELECT p.pipeline, s.partition, coalesce(c.next_offset, s.start_offset) AS cursor,
       seen.log_start, seen.last_stable, seen.high_watermark, seen.planned_at AS seen_at,
       done.max_timestamp AS complete_to,
       CASE WHEN EXISTS (SELECT FROM offset_ledger.topic_look l WHERE l.pipeline = p.pipeline) THEN
           offset_ledger.not_compacted_before(p.pipeline, p.topic_id, s.partition, coalesce(c.next_offset, s.start_offset))
       END AS unread_since
FROM offset_ledger.pipeline p
JOIN offset_ledger.beginning s USING (pipeline, topic_id)
LEFT JOIN offset_ledger.cursor c USING (pipeline, topic_id, partition)
LEFT JOIN offset_ledger.batch o
    ON o.pipeline = p.pipeline AND o.kind = 'head' AND o.state NOT IN ('committed', 'abandoned') AND o.after IS NULL
LEFT JOIN LATERAL (
    SELECT r.log_start, r.last_stable, r.high_watermark, b.planned_at
    FROM offset_ledger.batch b JOIN offset_ledger.batch_range r ON r.batch_id = b.batch_id AND r.partition = s.partition
    WHERE b.batch_id IN (o.batch_id, c.batch_id) ORDER BY b.batch_id DESC LIMIT 1
) seen ON true
LEFT JOIN LATERAL (
    SELECT r.max_timestamp FROM offset_ledger.batch_range r
    WHERE r.pipeline = p.pipeline AND r.topic_id = p.topic_id AND r.partition = s.partition
      AND r.committed_until <= c.next_offset AND r.max_timestamp IS NOT NULL
    ORDER BY r.committed_until DESC LIMIT 1
) done ON true
WHERE CASE WHEN %(pipelines)s::text[] IS NULL THEN p.file !~ '~' ELSE p.pipeline = ANY(%(pipelines)s) END
ORDER BY p.pipeline, s.partition
