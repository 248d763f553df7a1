-- A committed head batch moved a cursor, and of other batches there are few: no planner reads the history for this, also without
-- statistics.
SELECT target FROM offset_ledger.pipeline p WHERE pipeline = %(pipeline)s
AND (EXISTS (SELECT FROM offset_ledger.cursor c WHERE c.pipeline = p.pipeline)
     OR EXISTS (SELECT FROM offset_ledger.batch b WHERE b.pipeline = p.pipeline AND kind <> 'head' AND state = 'committed'))
