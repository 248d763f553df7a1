UPDATE offset_ledger.notification
SET claimed_until = NULL, error = %(error)s, sent_at = CASE WHEN %(error)s::text IS NULL THEN now() END
WHERE notification_id = %(notification_id)s AND sent_at IS NULL
