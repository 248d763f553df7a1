SELECT count(*) FROM offset_ledger.notification
WHERE pipeline = ANY(%(names)s) AND coalesce(ended_at, last_seen_at) < %(older_than)s
