-- Of a log: another one of the topic has the same coordinates again.
WITH twice AS MATERIALIZED (SELECT {key} FROM {rows} AS r GROUP BY {key} HAVING count(*) > 1)
SELECT format('the record at partition %%s offset %%s stands %%s times in the table, by batches %%s', _partition, _offset, count(*),
              string_agg(_batch_id::text, ', ' ORDER BY _batch_id))
FROM (SELECT {stored_key}, t._batch_id, {log_at} AS log FROM {rows} AS t JOIN twice USING ({key})) AS t
GROUP BY {key}, log HAVING count(*) > 1
