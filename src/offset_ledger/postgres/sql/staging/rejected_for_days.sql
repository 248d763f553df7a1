-- With what is staged ahead of them: nobody needs that any more.
SELECT b.batch_id, b.epoch FROM offset_ledger.batch b LEFT JOIN offset_ledger.batch before ON before.batch_id = b.after
WHERE b.pipeline = %(pipeline)s AND b.state NOT IN ('committed', 'abandoned') AND 'rejected' IN (b.state, before.state)
  AND coalesce(before.validated_at, b.validated_at) < now() - make_interval(days => %(days)s)
  AND to_regclass(format('offset_ledger_staging.b%%s_e%%s', b.batch_id, b.epoch)) IS NOT NULL
FOR UPDATE OF b SKIP LOCKED
