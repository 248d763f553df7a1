INSERT INTO offset_ledger.notification AS known (pipeline, cause, key, notifier, subject, body, link)
VALUES (%(pipeline)s, %(cause)s, %(key)s, %(notifier)s, %(subject)s, %(body)s, %(link)s)
ON CONFLICT (pipeline, cause, md5(key), notifier) WHERE ended_at IS NULL DO UPDATE
SET last_seen_at = now(), subject = excluded.subject, body = excluded.body, link = excluded.link
WHERE known.sent_at IS NULL
