SELECT batch_id FROM offset_ledger.pipeline JOIN offset_ledger.batch USING (pipeline)
WHERE file = %(file)s AND state NOT IN ('committed', 'abandoned') AND state = 'validated'
