-- Or it was dismissed there, and pruned since.
SELECT format('partition %%s offset %%s: refused and not in quarantine: %%s', s._partition, s._offset, s.reasons) AS line,
       b.config_hash <> %(config_hash)s AS earlier
FROM topic_refused AS s
LEFT JOIN offset_ledger.batch_range r
       ON r.pipeline = %(pipeline)s AND r.topic_id = %(topic_id)s AND r.partition = s._partition
      AND s._offset >= r.committed_from AND s._offset < r.committed_until
LEFT JOIN offset_ledger.batch b ON b.batch_id = r.batch_id
WHERE NOT EXISTS (SELECT FROM offset_ledger.quarantine q
                  WHERE (q.pipeline, q.topic_id, q.partition, q."offset")
                      = (%(pipeline)s, %(topic_id)s, s._partition, s._offset))
  AND NOT EXISTS (SELECT FROM offset_ledger.pruned_dismissals(%(pipeline)s, %(topic_id)s) AS d
                  WHERE d.partition = s._partition AND d."offset" = s._offset)
