-- One range for each partition, from the start of the first to the end of the last. In one statement: what follows it, and
-- the cursor, refer to that end at every moment.
WITH gone AS (
    DELETE FROM offset_ledger.batch_range r USING prune_choice c
    WHERE r.batch_id = c.batch_id RETURNING c.summary, c.head, r.*
)
INSERT INTO offset_ledger.batch_range
    (batch_id, pipeline, topic_id, partition, from_offset, until_offset, log_start, last_stable, high_watermark,
     leader_epoch, inserted, updated, superseded, duplicate, deleted, quarantined, skipped, gap, added, gap_reason,
     min_timestamp, max_timestamp, committed_from, committed_until, begins, follows)
SELECT summary, pipeline, topic_id, partition, min(from_offset), max(until_offset),
       (array_agg(log_start ORDER BY until_offset DESC))[1], (array_agg(last_stable ORDER BY until_offset DESC))[1],
       (array_agg(high_watermark ORDER BY until_offset DESC))[1], (array_agg(leader_epoch ORDER BY until_offset DESC))[1],
       sum(inserted), sum(updated), sum(superseded), sum(duplicate), sum(deleted), sum(quarantined), sum(skipped), sum(gap),
       coalesce(sum(added), 0), string_agg(DISTINCT gap_reason, ', '), min(min_timestamp), max(max_timestamp),
       min(committed_from), max(committed_until), min(begins), CASE WHEN min(begins) IS NULL THEN min(follows) END
FROM gone WHERE head GROUP BY summary, pipeline, topic_id, partition
