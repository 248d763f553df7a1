SELECT q.quarantine_id, q.batch_id, q.topic_id, q.partition, q."offset", q."timestamp", q.quarantined_at, q.schema_id,
       q.reasons, q.retried_by, q.retried_reasons, q.resolved_by, q.dismissed_by, d.decided_at AS dismissed_at,
       d.who AS dismissed_who, d.why AS dismissed_why, q.headers, octet_length(q.key) AS key_bytes,
       octet_length(q.value) AS value_bytes, substring(q.key FROM 1 FOR %(shown)s) AS key,
       substring(q.value FROM 1 FOR %(shown)s) AS value
FROM offset_ledger.quarantine q LEFT JOIN offset_ledger.dismissal d ON d.dismissal_id = q.dismissed_by
WHERE q.pipeline = %(pipeline)s AND q.quarantine_id = %(quarantine_id)s
