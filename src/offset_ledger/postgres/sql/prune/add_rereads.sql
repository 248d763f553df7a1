-- What the batches that were no heads had read and added, and what the summaries before have kept of such. A redrive has not read
-- what lies between its records: of its range that counts which others have read.
WITH gone AS (
    DELETE FROM offset_ledger.pruned_reread p USING prune_choice c
    WHERE p.batch_id = c.batch_id RETURNING c.summary, p.*
), parts AS (
    SELECT summary, partition, offsets, inserted, updated, superseded, duplicate, deleted, quarantined, skipped, gap, added
    FROM gone
    UNION ALL
    SELECT c.summary, partition, int8multirange(int8range(from_offset, until_offset)) * coalesce(others.have_read, '{(,)}'),
           inserted, updated, superseded, duplicate, deleted, quarantined, r.skipped, gap, coalesce(added, 0)
    FROM prune_choice c JOIN offset_ledger.batch b USING (batch_id) JOIN offset_ledger.batch_range r USING (batch_id)
    LEFT JOIN LATERAL (
        SELECT range_agg(o) AS have_read
        FROM (SELECT int8range(start_offset, next_offset)
              FROM offset_ledger.beginning s JOIN offset_ledger.cursor k USING (pipeline, topic_id, partition)
              WHERE (s.pipeline, s.topic_id, s.partition) = (r.pipeline, r.topic_id, r.partition)
              UNION ALL
              SELECT int8range(h.from_offset, h.until_offset)
              FROM offset_ledger.batch a JOIN offset_ledger.batch_range h USING (batch_id)
              WHERE (a.pipeline, a.topic_id, h.partition) = (r.pipeline, r.topic_id, r.partition)
                AND a.kind IN ('backfill', 'replay') AND a.state = 'committed'
              UNION ALL
              SELECT unnest(p.offsets) FROM offset_ledger.batch a JOIN offset_ledger.pruned_reread p USING (batch_id)
              WHERE (a.pipeline, a.topic_id, p.partition) = (r.pipeline, r.topic_id, r.partition) AND a.kind = 'pruned') AS read (o)
    ) AS others ON b.kind = 'redrive'
    WHERE NOT c.head
)
INSERT INTO offset_ledger.pruned_reread
SELECT summary, partition, range_agg(offsets), sum(inserted), sum(updated), sum(superseded), sum(duplicate), sum(deleted),
       sum(quarantined), sum(skipped), sum(gap), sum(added)
FROM parts GROUP BY summary, partition
