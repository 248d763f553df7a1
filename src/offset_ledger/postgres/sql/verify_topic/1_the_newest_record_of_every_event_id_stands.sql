-- A record that waits in quarantine, or was dismissed there (it may be pruned since), is not expected in the table.
WITH expected AS (
    SELECT * FROM topic_rows AS s
    WHERE NOT EXISTS (SELECT FROM offset_ledger.quarantine q
                      WHERE (q.pipeline, q.topic_id, q.partition, q."offset")
                          = (%(pipeline)s, %(topic_id)s, s._partition, s._offset) AND q.resolved_by IS NULL)
      AND NOT EXISTS (SELECT FROM offset_ledger.pruned_dismissals(%(pipeline)s, %(topic_id)s) AS d
                      WHERE d.partition = s._partition AND d."offset" = s._offset)
), winners AS (
    SELECT DISTINCT ON ({staged_key}) s.* FROM {expected} AS s ORDER BY {staged_key}, {newest_first}
)
SELECT format('partition %%s offset %%s event %%s: %%s', s._partition, s._offset, {event},
              CASE WHEN {known} IS NULL THEN 'the table does not have this event id'
                   ELSE format('the table has an older record, partition %%s offset %%s with publish_at %%s instead of %%s',
                               t._partition, t._offset, t.publish_at, s.publish_at) END) AS line,
       b.config_hash <> %(config_hash)s AND ({known} IS NOT NULL OR s._deleted) AS earlier
FROM winners AS s
LEFT JOIN {target} AS t ON {same_key}
LEFT JOIN offset_ledger.batch_range r
       ON r.pipeline = %(pipeline)s AND r.topic_id = %(topic_id)s AND r.partition = s._partition
      AND s._offset >= r.committed_from AND s._offset < r.committed_until
LEFT JOIN offset_ledger.batch b ON b.batch_id = r.batch_id
WHERE {known} IS NULL AND NOT (%(skip_existing)s AND EXISTS (SELECT FROM {table} AS u WHERE {same_row}))
   OR NOT %(skip_existing)s AND {newer}
