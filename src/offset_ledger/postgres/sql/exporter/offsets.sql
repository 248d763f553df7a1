-- What became of every offset ever committed: also of those whose batches were pruned, so that the sums never go back.
SELECT pipeline, sum(inserted)::bigint AS inserted, sum(updated)::bigint AS updated, sum(superseded)::bigint AS superseded,
       sum(duplicate)::bigint AS duplicate, sum(deleted)::bigint AS deleted, sum(quarantined)::bigint AS quarantined,
       sum(skipped)::bigint AS skipped, sum(gap)::bigint AS gap
FROM (
    SELECT pipeline, inserted, updated, superseded, duplicate, deleted, quarantined, skipped, gap
    FROM offset_ledger.batch_range WHERE pipeline = ANY(%(pipelines)s) AND inserted IS NOT NULL
    UNION ALL
    SELECT b.pipeline, r.inserted, r.updated, r.superseded, r.duplicate, r.deleted, r.quarantined, r.skipped, r.gap
    FROM offset_ledger.pruned_reread r JOIN offset_ledger.batch b USING (batch_id) WHERE b.pipeline = ANY(%(pipelines)s)
) AS sheets
GROUP BY pipeline
