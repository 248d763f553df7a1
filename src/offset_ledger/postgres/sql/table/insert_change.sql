INSERT INTO offset_ledger.target_change (pipeline, batch_id, target, found, clause)
SELECT %(pipeline)s, %(batch_id)s, target, %(found)s, %(clause)s FROM offset_ledger.pipeline WHERE pipeline = %(pipeline)s
