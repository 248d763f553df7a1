SELECT target FROM offset_ledger.pipeline p WHERE pipeline = %(pipeline)s
AND (SELECT true FROM offset_ledger.batch b WHERE b.pipeline = p.pipeline AND b.state = 'committed'
     ORDER BY -b.batch_id LIMIT 1)
