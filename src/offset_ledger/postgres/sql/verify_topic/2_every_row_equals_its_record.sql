SELECT format('partition %%s offset %%s event %%s: %%s is %%s in the table and %%s in the topic%%s', t._partition, t._offset,
              {stored_event}, c.name, coalesce(left(c.actual, 60), 'NULL'), coalesce(left(c.expected, 60), 'NULL'),
              {cut_header_name}) AS line,
       b.config_hash <> %(config_hash)s AS earlier
FROM {rows} AS t
JOIN offset_ledger.batch b ON b.batch_id = offset_ledger.stands_for(%(pipeline)s, t._batch_id)
 AND (b.pipeline, b.topic_id) = (%(pipeline)s, %(topic_id)s)
JOIN topic_rows AS s ON s._partition = t._partition AND s._offset = t._offset
CROSS JOIN LATERAL (VALUES {pairs}) AS c (name, actual, expected)
WHERE c.actual IS DISTINCT FROM c.expected
