SELECT format('batches %%s are open head batches at once', string_agg(batch_id::text, ', '))
FROM offset_ledger.batch
WHERE pipeline = %(pipeline)s AND kind = 'head' AND state NOT IN ('committed', 'abandoned')
HAVING count(*) > 1
