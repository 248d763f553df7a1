SELECT q.quarantine_id
FROM offset_ledger.batch b JOIN offset_ledger.quarantine q ON q.resolved_by = b.batch_id
WHERE b.pipeline = %(pipeline)s AND q.topic_id = %(topic_id)s AND b.kind = 'redrive' AND b.state = 'committed'
  AND q.quarantine_id > %(after)s AND offset_ledger.may_be_pruned(q, %(older_than)s, %(up_to)s)
ORDER BY q.quarantine_id LIMIT %(limit)s
