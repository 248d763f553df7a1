UPDATE offset_ledger.notification
SET attempts = attempts + 1, claimed_until = clock_timestamp() + make_interval(secs => %(seconds)s)
WHERE notification_id = (
    SELECT notification_id FROM offset_ledger.notification
    WHERE pipeline = %(pipeline)s AND notifier = %(notifier)s AND sent_at IS NULL AND ended_at IS NULL
      AND last_seen_at > now() - interval '1 day'
      AND (claimed_until IS NULL OR claimed_until < clock_timestamp())
    ORDER BY notification_id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING notification_id, cause, subject, body, link
