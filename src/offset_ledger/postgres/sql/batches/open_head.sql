SELECT batch_id FROM offset_ledger.batch
WHERE pipeline = %(pipeline)s AND kind = 'head' AND state NOT IN ('committed', 'abandoned') AND after IS NULL
