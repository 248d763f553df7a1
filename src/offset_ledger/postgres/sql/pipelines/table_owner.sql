-- The pipelines of another file that the table belongs to; whether they have committed anything, and their first open batch.
SELECT pipeline,
       coalesce((SELECT true FROM offset_ledger.batch b WHERE b.pipeline = p.pipeline AND state = 'committed'
                 ORDER BY -batch_id LIMIT 1), false) AS committed,
       (SELECT min(batch_id) FROM offset_ledger.batch b
        WHERE b.pipeline = p.pipeline AND state NOT IN ('committed', 'abandoned')) AS open_batch
FROM offset_ledger.pipeline AS p
WHERE target = %(target)s AND file <> %(file)s
ORDER BY committed DESC, open_batch LIMIT 1
