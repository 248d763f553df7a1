DELETE FROM offset_ledger.writer_schema WHERE pipeline = %(pipeline)s AND schema_id = ANY(%(ids)s)
