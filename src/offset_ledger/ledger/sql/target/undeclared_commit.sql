SELECT FROM offset_ledger.batch WHERE pipeline = %(pipeline)s AND state = 'committed'
AND NOT EXISTS (SELECT FROM offset_ledger.declared_column WHERE pipeline = %(pipeline)s) LIMIT 1
