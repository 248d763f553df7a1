-- The schemas that the staged records name, with the first offset of each partition; a Protobuf record has besides the indexes
-- of its message behind the schema id, and no fewer bytes than are taken here.
SELECT _partition, _schema_id, head, min(_offset)
FROM (SELECT _partition, _offset, _schema_id, {head} AS head FROM {rows}
      UNION ALL SELECT _partition, _offset, _schema_id, {head} FROM {refused}) AS staged
WHERE _schema_id IS NOT NULL GROUP BY 1, 2, 3 ORDER BY 1, 4
