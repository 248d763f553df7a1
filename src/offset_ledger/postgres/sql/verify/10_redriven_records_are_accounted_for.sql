-- A record is resolved by exactly the committed redrive batch that holds it as resolved, and refused again by one that
-- holds it as refused; a redrive batch that has ended holds no open record, and writes no row of other records. A record is
-- dismissed by the last decision of a person about it. Records that a redrive has resolved may have been pruned since.
SELECT format('partition %%s offset %%s is resolved by batch %%s, which is no committed redrive that resolved it',
              q.partition, q."offset", q.resolved_by)
FROM offset_ledger.quarantine q
WHERE q.pipeline = %(pipeline)s AND q.resolved_by IS NOT NULL AND NOT EXISTS (
    SELECT FROM offset_ledger.redrive_record r JOIN offset_ledger.batch b USING (batch_id)
    WHERE r.quarantine_id = q.quarantine_id AND r.batch_id = q.resolved_by AND r.outcome = 'resolved'
      AND b.kind = 'redrive' AND b.state = 'committed')
UNION ALL
SELECT format('partition %%s offset %%s: batch %%s (%%s) holds it as %%s, the quarantine says resolved by %%s, refused by %%s',
              q.partition, q."offset", b.batch_id, b.state, coalesce(r.outcome, 'open'),
              coalesce(q.resolved_by::text, 'none'), coalesce(q.retried_by::text, 'none'))
FROM offset_ledger.redrive_record r
JOIN offset_ledger.batch b USING (batch_id)
JOIN offset_ledger.quarantine q USING (quarantine_id)
WHERE b.pipeline = %(pipeline)s AND NOT CASE b.state
    WHEN 'committed' THEN coalesce(r.outcome = 'resolved' AND q.resolved_by = b.batch_id
                                   OR r.outcome = 'refused' AND q.retried_by >= b.batch_id, false)
    WHEN 'abandoned' THEN coalesce(r.outcome = 'abandoned', false)
    ELSE r.outcome IS NULL AND q.resolved_by IS NULL AND q.dismissed_by IS NULL END
UNION ALL
SELECT format('partition %%s offset %%s is dismissed by decision %%s, the last decision about it is %%s', q.partition,
              q."offset", coalesce(q.dismissed_by::text, 'none'),
              coalesce(decision.dismissal_id || CASE WHEN decision.undone THEN ', which undoes it' ELSE '' END,
              'none'))
FROM offset_ledger.quarantine q
LEFT JOIN LATERAL (SELECT d.dismissal_id, d.undone
                   FROM offset_ledger.dismissal_record r JOIN offset_ledger.dismissal d USING (dismissal_id)
                   WHERE r.quarantine_id = q.quarantine_id ORDER BY d.dismissal_id DESC LIMIT 1) AS decision ON true
WHERE q.pipeline = %(pipeline)s AND q.dismissed_by IS DISTINCT FROM CASE WHEN NOT decision.undone
                                                                           THEN decision.dismissal_id END
UNION ALL
SELECT format('event %%s at partition %%s offset %%s was written by redrive batch %%s, which does not hold that record',
              {stored_event}, t._partition, t._offset, t._batch_id)
FROM {rows} AS t
JOIN offset_ledger.batch b ON b.batch_id = t._batch_id AND b.pipeline = %(pipeline)s AND b.kind = 'redrive'
WHERE NOT EXISTS (
    SELECT FROM offset_ledger.redrive_record r JOIN offset_ledger.quarantine q USING (quarantine_id)
    WHERE r.batch_id = b.batch_id AND q.partition = t._partition AND q."offset" = t._offset)
  AND NOT EXISTS (SELECT FROM offset_ledger.pruning p
                  WHERE p.pipeline = b.pipeline AND p.topic_id = b.topic_id AND p.until_batch_id >= b.batch_id)
