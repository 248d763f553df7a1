SELECT q.quarantine_id, p.topic, q.topic_id, q.partition, q."offset",
       (extract(epoch FROM q."timestamp") * 1000)::bigint AS timestamp_ms, q.key, q.value, q.headers, q.batch_id,
       coalesce(q.retried_reasons, q.reasons)::text AS reasons
FROM offset_ledger.dead_letter d
JOIN offset_ledger.quarantine q USING (quarantine_id)
JOIN offset_ledger.pipeline p USING (pipeline)
WHERE q.pipeline = %(pipeline)s AND d.topic = %(topic)s AND d.delivered_at IS NULL AND q.dismissed_by IS NULL
ORDER BY q.quarantine_id LIMIT %(limit)s
