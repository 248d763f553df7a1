-- Of the very same run, or of a person at the command line, who has none: the batch of another run may be at work, and to
-- take it over would fence that run.
SELECT batch_id FROM offset_ledger.batch
WHERE pipeline = %(pipeline)s AND kind = %(kind)s
  AND dag_id IS NOT DISTINCT FROM %(dag_id)s AND run_id IS NOT DISTINCT FROM %(run_id)s
  AND request = %(request)s AND state NOT IN ('committed', 'abandoned')
ORDER BY batch_id DESC LIMIT 1
