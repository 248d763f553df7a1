SELECT batch_id FROM offset_ledger.batch
WHERE batch_id = ANY(%(batch_ids)s) AND state IN ('committed', 'abandoned')
