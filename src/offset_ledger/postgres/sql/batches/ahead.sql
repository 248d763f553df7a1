SELECT batch_id FROM offset_ledger.batch WHERE pipeline = %(pipeline)s AND after IS NOT NULL
