SELECT batch_id FROM offset_ledger.batch
WHERE state NOT IN ('committed', 'abandoned') ORDER BY batch_id DESC LIMIT %(limit)s
