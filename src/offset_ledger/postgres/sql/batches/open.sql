SELECT batch_id FROM offset_ledger.batch
WHERE pipeline = %(pipeline)s AND state NOT IN ('committed', 'abandoned') AND (kind = 'head' OR NOT %(heads_only)s)
ORDER BY batch_id
