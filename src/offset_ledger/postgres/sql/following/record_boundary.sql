INSERT INTO offset_ledger.schema_boundary (batch_id, partition, schema_id, message, first_offset, ends, difference)
VALUES (%(batch_id)s, %(partition)s, %(schema_id)s, %(message)s, %(first_offset)s, %(ends)s, %(difference)s)
ON CONFLICT (batch_id, partition, schema_id, message) DO UPDATE
SET first_offset = EXCLUDED.first_offset, ends = EXCLUDED.ends, difference = EXCLUDED.difference
