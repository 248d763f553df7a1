-- Of a pruned batch only the place is known: that it, or one up to the batch that stands for it, has committed this offset.
WITH pruned AS MATERIALIZED (
    SELECT r.batch_id AS up_to, r.partition, r.from_offset, r.until_offset
    FROM offset_ledger.batch b JOIN offset_ledger.batch_range r USING (batch_id)
    WHERE b.pipeline = %(pipeline)s AND b.kind = 'pruned'
    UNION ALL
    SELECT r.batch_id, r.partition, lower(o), upper(o)
    FROM offset_ledger.batch b JOIN offset_ledger.pruned_reread r USING (batch_id) CROSS JOIN unnest(r.offsets) AS o
    WHERE b.pipeline = %(pipeline)s AND b.kind = 'pruned'
)
SELECT format('event %%s at partition %%s offset %%s was written by batch %%s, which did not commit that offset',
              {stored_event}, t._partition, t._offset, t._batch_id)
FROM {rows} AS t
LEFT JOIN (offset_ledger.batch_range r JOIN offset_ledger.batch b
           ON b.batch_id = r.batch_id AND b.pipeline = %(pipeline)s AND b.state = 'committed')
  ON r.batch_id = t._batch_id AND r.partition = t._partition
 AND t._offset >= r.from_offset AND t._offset < r.until_offset
LEFT JOIN offset_ledger.batch known ON known.batch_id = t._batch_id
WHERE r.batch_id IS NULL
  AND NOT EXISTS (SELECT FROM pruned p
                  WHERE p.partition = t._partition AND p.up_to >= t._batch_id AND t._offset >= p.from_offset
                    AND t._offset < p.until_offset
                    AND (known.batch_id IS NULL OR (known.kind, known.pipeline) = ('pruned', %(pipeline)s)))
