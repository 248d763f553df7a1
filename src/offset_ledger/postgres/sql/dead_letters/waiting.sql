SELECT d.topic, count(*) AS letters
FROM offset_ledger.dead_letter d JOIN offset_ledger.quarantine q USING (quarantine_id)
WHERE q.pipeline = %(pipeline)s AND d.delivered_at IS NULL AND q.dismissed_by IS NULL
GROUP BY d.topic ORDER BY d.topic
