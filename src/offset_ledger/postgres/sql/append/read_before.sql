-- Of the ranges of a batch, what committed batches have read before of the same log; below an offset where it was truncated, also
-- by its earlier names. Head batches read no offset twice, and a redrive reads none.
SELECT partition, range_agg(int8range(from_offset, until_offset)) AS offsets
FROM (
    SELECT w.partition, r.from_offset, least(r.until_offset, CASE WHEN r.topic_id <> w.topic_id THEN n.start_offset END) AS until_offset
    FROM offset_ledger.batch wanted JOIN offset_ledger.batch_range w USING (batch_id)
    LEFT JOIN offset_ledger.beginning n ON (n.pipeline, n.topic_id, n.partition) = (w.pipeline, w.topic_id, w.partition)
    JOIN LATERAL (
        SELECT h.topic_id, h.from_offset, h.until_offset
        FROM offset_ledger.beginning s JOIN offset_ledger.batch_range h USING (pipeline, topic_id, partition)
        WHERE wanted.kind <> 'head' AND (s.pipeline, s.partition) = (w.pipeline, w.partition)
          AND h.committed_until > w.from_offset AND h.committed_from < w.until_offset
        UNION ALL
        SELECT h.topic_id, h.from_offset, h.until_offset
        FROM offset_ledger.batch b JOIN offset_ledger.batch_range h USING (batch_id)
        WHERE b.pipeline = w.pipeline AND b.kind IN ('backfill', 'replay') AND b.state = 'committed' AND h.partition = w.partition
          AND h.until_offset > w.from_offset AND h.from_offset < w.until_offset
        UNION ALL
        SELECT b.topic_id, lower(o), upper(o)
        FROM offset_ledger.batch b JOIN offset_ledger.pruned_reread p USING (batch_id) CROSS JOIN unnest(p.offsets) AS o
        WHERE b.pipeline = w.pipeline AND b.kind = 'pruned' AND p.partition = w.partition
          AND upper(o) > w.from_offset AND lower(o) < w.until_offset
    ) AS r ON split_part(r.topic_id, '/', 1) = split_part(w.topic_id, '/', 1)
    WHERE wanted.batch_id = {batch_id} AND wanted.kind <> 'redrive'
) AS r
WHERE from_offset < until_offset GROUP BY partition
