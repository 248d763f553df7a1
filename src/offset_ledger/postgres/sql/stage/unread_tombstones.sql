-- For each range of a batch: how long its records may have waited until now, and the shortest time for which tombstones were kept
-- meanwhile, as plans saw it; NULL where none saw the topic compacted.
SELECT r.partition, clock_timestamp() - w.since AS waited,
       (SELECT min(l.delete_retention_ms) FROM offset_ledger.topic_look l
        WHERE l.pipeline = r.pipeline AND l.seen_at >= w.since) AS kept_ms
FROM offset_ledger.batch_range r
CROSS JOIN LATERAL (
    SELECT offset_ledger.not_compacted_before(r.pipeline, r.topic_id, r.partition, r.from_offset) AS since
) w
WHERE r.batch_id = %(batch_id)s
