-- The next notifications, and which of them go: those of a cause that ended or was last seen before.
SELECT notification_id AS id, coalesce(ended_at, last_seen_at) < %(older_than)s AS goes
FROM offset_ledger.notification
WHERE pipeline = ANY(%(names)s) AND notification_id > %(after)s ORDER BY notification_id LIMIT %(limit)s
