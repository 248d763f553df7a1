SELECT schema_id, language, text, "references", subjects, NULL FROM offset_ledger.writer_schema
WHERE pipeline = %(pipeline)s ORDER BY schema_id
