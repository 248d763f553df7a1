-- A record that was dismissed, and pruned since, stays dismissed when it is read again.
INSERT INTO offset_ledger.quarantine
    (pipeline, topic_id, partition, "offset", "timestamp", key, headers, value, reasons, batch_id, schema_id)
SELECT %(pipeline)s, %(topic_id)s, _partition, _offset, _timestamp, _key, _headers, _value, reasons, %(batch_id)s,
       {schema_id}
FROM {refused}
WHERE NOT EXISTS (SELECT FROM offset_ledger.pruned_dismissal d
                  WHERE (d.pipeline, d.topic_id, d.partition) = (%(pipeline)s, %(topic_id)s, _partition)
                    AND d.until_offset > _offset AND d.offsets @> _offset)
ORDER BY _partition, _offset
ON CONFLICT (pipeline, topic_id, partition, "offset") DO NOTHING
