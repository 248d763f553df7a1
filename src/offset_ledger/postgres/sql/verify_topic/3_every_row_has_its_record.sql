-- On a compacted topic a row outlives its record.
SELECT format('partition %%s offset %%s event %%s: %%s', t._partition, t._offset, {stored_event},
              CASE WHEN refused.reasons IS NOT NULL THEN format('its record is refused today: %%s', refused.reasons)
                   WHEN skipped._offset IS NOT NULL THEN 'its record is one that the pipeline file skips'
                   ELSE 'the topic has no such record' END) AS line,
       b.config_hash <> %(config_hash)s AND coalesce(refused._offset, skipped._offset) IS NOT NULL AS earlier
FROM {rows} AS t
JOIN offset_ledger.batch b ON b.batch_id = offset_ledger.stands_for(%(pipeline)s, t._batch_id)
 AND (b.pipeline, b.topic_id) = (%(pipeline)s, %(topic_id)s)
JOIN topic_ranges AS r ON r._partition = t._partition AND t._offset >= r.from_offset AND t._offset < r.until_offset
LEFT JOIN topic_refused AS refused ON refused._partition = t._partition AND refused._offset = t._offset
LEFT JOIN topic_skipped AS skipped ON skipped._partition = t._partition AND skipped._offset = t._offset
WHERE NOT EXISTS (SELECT FROM topic_rows AS s WHERE s._partition = t._partition AND s._offset = t._offset)
  AND (NOT %(compacted)s OR coalesce(refused._offset, skipped._offset) IS NOT NULL)
