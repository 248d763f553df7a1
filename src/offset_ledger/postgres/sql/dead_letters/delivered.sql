UPDATE offset_ledger.dead_letter AS d SET delivered_at = now(), at_partition = found.at_partition, at_offset = found.at_offset
FROM (VALUES %s) AS found (pipeline, topic_id, partition, "offset", at_partition, at_offset)
JOIN offset_ledger.quarantine q USING (pipeline, topic_id, partition, "offset")
WHERE d.quarantine_id = q.quarantine_id AND d.delivered_at IS NULL
