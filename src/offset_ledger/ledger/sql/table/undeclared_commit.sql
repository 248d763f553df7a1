SELECT FROM offset_ledger.batch WHERE pipeline = %(pipeline)s AND state = 'committed'
AND NOT EXISTS (SELECT FROM offset_ledger.declared_column WHERE pipeline = %(pipeline)s)
ORDER BY -batch_id LIMIT 1
