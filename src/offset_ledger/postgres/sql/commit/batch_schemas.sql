INSERT INTO offset_ledger.batch_schema (batch_id, partition, schema_id, first_offset, last_offset, records)
SELECT %(batch_id)s, _partition, _schema_id, min(_offset), max(_offset), count(*)
FROM (SELECT _partition, _offset, _schema_id FROM {rows}
      UNION ALL SELECT _partition, _offset, _schema_id FROM {refused}) AS staged
WHERE _schema_id IS NOT NULL GROUP BY _partition, _schema_id
