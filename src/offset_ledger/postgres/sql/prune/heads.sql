-- The next head batches of the log, oldest first, and what keeps each. The records of each are looked up by its id: EXISTS may
-- be answered from a list of all records of the ledger.
SELECT batch_id, kind, CASE
    WHEN ended_at >= %(older_than)s THEN 'age'
    WHEN approval IS NOT NULL OR EXISTS (SELECT FROM offset_ledger.decision d WHERE d.batch_id = b.batch_id) THEN 'decision'
    WHEN (SELECT true FROM offset_ledger.quarantine q
          WHERE q.batch_id = b.batch_id AND NOT offset_ledger.may_be_pruned(q, %(records_older_than)s, %(records_up_to)s)
          LIMIT 1) THEN 'quarantine'
    END AS kept_by
FROM offset_ledger.batch b
WHERE pipeline = %(pipeline)s AND topic_id = %(topic_id)s AND kind IN ('head', 'pruned') AND state = 'committed'
  AND -batch_id < -%(after)s::bigint AND -batch_id >= -%(up_to)s::bigint
ORDER BY -batch_id DESC LIMIT %(limit)s
