-- What the batches that were no heads had read and added, and what the summaries before have kept of such.
WITH gone AS (
    DELETE FROM offset_ledger.pruned_reread p USING prune_choice c
    WHERE p.batch_id = c.batch_id RETURNING c.summary, p.*
), parts AS (
    SELECT summary, partition, offsets, inserted, updated, superseded, duplicate, deleted, quarantined, skipped, gap, added
    FROM gone
    UNION ALL
    SELECT c.summary, partition, int8multirange(int8range(from_offset, until_offset)), inserted, updated, superseded,
           duplicate, deleted, quarantined, skipped, gap, coalesce(added, 0)
    FROM prune_choice c JOIN offset_ledger.batch_range USING (batch_id) WHERE NOT c.head
)
INSERT INTO offset_ledger.pruned_reread
SELECT summary, partition, range_agg(offsets), sum(inserted), sum(updated), sum(superseded), sum(duplicate), sum(deleted),
       sum(quarantined), sum(skipped), sum(gap), sum(added)
FROM parts GROUP BY summary, partition
