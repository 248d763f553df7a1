SELECT target FROM offset_ledger.pipeline p WHERE pipeline = %(pipeline)s
AND EXISTS (SELECT FROM offset_ledger.batch b WHERE b.pipeline = p.pipeline AND b.state = 'committed')
