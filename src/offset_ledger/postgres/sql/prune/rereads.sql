-- The first of the other committed batches between two ids that nothing keeps. A remerge asks which of its parts have been replayed.
SELECT batch_id FROM offset_ledger.batch b
WHERE pipeline = %(pipeline)s AND topic_id = %(topic_id)s AND kind IN ('backfill', 'replay', 'redrive')
  AND state = 'committed' AND ended_at < %(older_than)s AND batch_id > %(after)s AND batch_id < %(before)s
  AND approval IS NULL AND coalesce(NOT request ? 'remerge', true)
  AND NOT EXISTS (SELECT FROM offset_ledger.decision d WHERE d.batch_id = b.batch_id)
  AND NOT EXISTS (SELECT FROM offset_ledger.quarantine q
                  WHERE (q.batch_id = b.batch_id OR q.resolved_by = b.batch_id OR q.retried_by = b.batch_id)
                    AND NOT offset_ledger.may_be_pruned(q, %(records_older_than)s, %(records_up_to)s))
  AND NOT EXISTS (SELECT FROM offset_ledger.redrive_record r JOIN offset_ledger.quarantine q USING (quarantine_id)
                  WHERE r.batch_id = b.batch_id AND NOT offset_ledger.may_be_pruned(q, %(records_older_than)s, %(records_up_to)s))
ORDER BY batch_id LIMIT %(limit)s
