SELECT format('batch %%s epoch %%s: %%s slices were expected, the manifest has %%s', batch_id, epoch, slices_expected, found)
FROM offset_ledger.batch b
JOIN LATERAL (SELECT count(*) AS found FROM offset_ledger.slice s
              WHERE (s.batch_id, s.epoch) = (b.batch_id, b.epoch)) AS s ON true
WHERE pipeline = %(pipeline)s AND state = 'committed' AND kind <> 'redrive' AND slices_expected IS DISTINCT FROM found
