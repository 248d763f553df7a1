-- The next records of the log that a redrive has loaded or a person has dismissed, and which of them go.
SELECT q.quarantine_id AS id, offset_ledger.may_be_pruned(q, %(records_older_than)s, %(records_up_to)s) AS goes
FROM offset_ledger.quarantine q
WHERE q.pipeline = %(pipeline)s AND q.topic_id = %(topic_id)s AND (q.resolved_by IS NOT NULL OR q.dismissed_by IS NOT NULL)
  AND q.quarantine_id > %(after)s
ORDER BY q.quarantine_id LIMIT %(limit)s
