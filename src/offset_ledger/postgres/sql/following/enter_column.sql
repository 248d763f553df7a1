INSERT INTO offset_ledger.followed_column (pipeline, name, path, type, encoding, schema_id, batch_id)
VALUES (%(pipeline)s, %(name)s, %(path)s, %(type)s, %(encoding)s, %(schema_id)s, %(batch_id)s)
ON CONFLICT (pipeline, batch_id, name) DO UPDATE SET type = EXCLUDED.type, schema_id = EXCLUDED.schema_id
