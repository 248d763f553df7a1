SELECT pipeline, count(DISTINCT batch_id) AS batches, sum(inserted)::bigint AS inserted, sum(updated)::bigint AS updated,
       sum(superseded)::bigint AS superseded, sum(duplicate)::bigint AS duplicate,
       sum(quarantined)::bigint AS quarantined
FROM offset_ledger.batch_range WHERE pipeline = ANY(%(pipelines)s) AND committed_from IS NOT NULL
GROUP BY pipeline ORDER BY pipeline
