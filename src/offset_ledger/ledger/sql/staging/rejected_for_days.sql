SELECT batch_id, epoch FROM offset_ledger.batch b
WHERE pipeline = %(pipeline)s AND state = 'rejected' AND validated_at < now() - make_interval(days => %(days)s)
  AND to_regclass(format('offset_ledger_staging.b%%s_e%%s', batch_id, epoch)) IS NOT NULL
FOR UPDATE SKIP LOCKED
