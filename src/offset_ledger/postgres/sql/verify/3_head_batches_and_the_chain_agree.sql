SELECT format('batch %%s (%%s, %%s) partition %%s: range [%%s, %%s) is %%s the chain', batch_id, kind, state, partition,
              from_offset, until_offset, CASE WHEN committed_from IS NULL THEN 'missing from' ELSE 'wrongly in' END)
FROM offset_ledger.batch_range JOIN offset_ledger.batch USING (batch_id, pipeline)
WHERE pipeline = %(pipeline)s AND (kind IN ('head', 'pruned') AND state = 'committed') <> (committed_from IS NOT NULL)
