UPDATE offset_ledger.notification SET ended_at = now()
WHERE pipeline = %(pipeline)s AND cause = ANY(%(causes)s) AND ended_at IS NULL
  AND (%(key)s::text IS NULL OR split_part(key, ' ', 1) = %(key)s) AND NOT key = ANY(%(still)s)
