SELECT batch_id, engine, sum(until_offset - from_offset)::bigint AS offsets
FROM offset_ledger.batch JOIN offset_ledger.batch_range USING (batch_id)
WHERE batch.pipeline = ANY(%(pipelines)s) AND kind <> 'redrive' AND state = 'committed'
GROUP BY batch_id ORDER BY batch_id
