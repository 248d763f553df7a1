INSERT INTO offset_ledger.schema_guid (pipeline, guid, schema_id)
VALUES (%(pipeline)s, %(guid)s, %(schema_id)s)
ON CONFLICT (pipeline, guid) DO NOTHING
