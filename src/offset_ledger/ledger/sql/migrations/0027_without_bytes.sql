-- Quarantined records for people who may not read values: sizes instead of bytes, and reasons without details, which quote values.
CREATE VIEW offset_ledger.quarantined AS
SELECT quarantine_id, pipeline, topic_id, partition, "offset", "timestamp", schema_id, length(key) AS key_bytes,
       length(value) AS value_bytes, batch_id, quarantined_at, resolved_by, retried_by, dismissed_by,
       (SELECT jsonb_agg(jsonb_build_object('code', r->'code', 'path', r->'path') ORDER BY place)
        FROM jsonb_array_elements(coalesce(retried_reasons, reasons)) WITH ORDINALITY AS e (r, place)) AS reasons
FROM offset_ledger.quarantine;
