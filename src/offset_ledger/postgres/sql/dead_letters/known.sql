SELECT q.topic_id, q.partition, q."offset", d.quarantine_id IS NOT NULL AS waiting
FROM (VALUES %s) AS found (pipeline, topic_id, partition, "offset")
JOIN offset_ledger.quarantine q USING (pipeline, topic_id, partition, "offset")
LEFT JOIN offset_ledger.dead_letter d ON d.quarantine_id = q.quarantine_id AND d.delivered_at IS NULL
