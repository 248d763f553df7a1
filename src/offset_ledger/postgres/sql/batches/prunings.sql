-- The pipelines of which a batch with this id may have been pruned, and when that was.
SELECT pipeline, min(pruned_at) AS pruned_at FROM offset_ledger.pruning
WHERE until_batch_id >= %(batch_id)s GROUP BY pipeline ORDER BY 1
