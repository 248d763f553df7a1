UPDATE offset_ledger.batch SET dag_id = %(dag_id)s, run_id = %(run_id)s
WHERE batch_id = (SELECT batch_id FROM offset_ledger.batch WHERE batch_id = %(batch_id)s FOR UPDATE SKIP LOCKED)
