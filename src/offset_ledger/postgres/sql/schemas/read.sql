SELECT s.schema_id, s.language, s.text, s."references", s.subjects, g.guid::text
FROM offset_ledger.writer_schema s LEFT JOIN offset_ledger.schema_guid g USING (pipeline, schema_id)
WHERE pipeline = %(pipeline)s AND (s.schema_id = ANY(%(schema_ids)s) OR g.guid = ANY(%(guids)s::uuid[]))
