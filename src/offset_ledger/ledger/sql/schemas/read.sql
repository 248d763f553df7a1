SELECT schema_id, language, text, "references", subjects FROM offset_ledger.writer_schema
WHERE pipeline = %(pipeline)s AND schema_id = ANY(%(schema_ids)s)
