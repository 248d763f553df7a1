SELECT format('event %%s at partition %%s offset %%s was written by batch %%s, which did not commit that offset',
              t.event_id, t._partition, t._offset, t._batch_id)
FROM {target} AS t
LEFT JOIN (offset_ledger.batch_range r JOIN offset_ledger.batch b
           ON b.batch_id = r.batch_id AND b.pipeline = %(pipeline)s AND b.state = 'committed')
  ON r.batch_id = t._batch_id AND r.partition = t._partition
 AND t._offset >= r.from_offset AND t._offset < r.until_offset
WHERE r.batch_id IS NULL
LIMIT 100
