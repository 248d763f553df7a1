SELECT partition, "offset", reasons->0->>'code', value FROM offset_ledger.quarantine WHERE pipeline = %(pipeline)s
