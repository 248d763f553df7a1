SELECT batch_id FROM offset_ledger.batch
WHERE pipeline = %(pipeline)s AND kind = %(kind)s AND dag_id = %(dag_id)s AND run_id = %(run_id)s
  AND request = %(request)s AND state NOT IN ('committed', 'abandoned')
ORDER BY batch_id DESC LIMIT 1
