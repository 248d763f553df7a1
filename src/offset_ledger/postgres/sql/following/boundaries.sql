SELECT partition, schema_id, message, first_offset, ends, difference FROM offset_ledger.schema_boundary
WHERE batch_id = %(batch_id)s ORDER BY partition, first_offset, schema_id
