INSERT INTO offset_ledger.writer_schema (pipeline, schema_id, language, text, "references", subjects, fingerprint)
VALUES (%(pipeline)s, %(schema_id)s, %(language)s, %(text)s, %(references)s, %(subjects)s, %(fingerprint)s)
ON CONFLICT (pipeline, schema_id) DO NOTHING
