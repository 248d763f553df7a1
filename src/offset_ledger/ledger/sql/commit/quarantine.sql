INSERT INTO offset_ledger.quarantine
    (pipeline, topic_id, partition, "offset", "timestamp", key, headers, value, reasons, batch_id, schema_id)
SELECT %(pipeline)s, %(topic_id)s, _partition, _offset, _timestamp, _key, _headers, _value, reasons, %(batch_id)s,
       {schema_id}
FROM {refused}
ON CONFLICT (pipeline, topic_id, partition, "offset") DO NOTHING
