INSERT INTO offset_ledger.notification AS known (pipeline, cause, key, notifier, subject, body, link)
VALUES (%(pipeline)s, %(cause)s, %(key)s, %(notifier)s, %(subject)s, %(body)s, %(link)s)
ON CONFLICT (pipeline, cause, md5(key), notifier) WHERE ended_at IS NULL DO UPDATE
SET last_seen_at = now(), -- also of what was sent: prune goes by it
    subject = CASE WHEN known.sent_at IS NULL THEN excluded.subject ELSE known.subject END,
    body = CASE WHEN known.sent_at IS NULL THEN excluded.body ELSE known.body END,
    link = CASE WHEN known.sent_at IS NULL THEN excluded.link ELSE known.link END
