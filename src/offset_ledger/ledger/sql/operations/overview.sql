-- One row for each pipeline of the ledger. Quarantine is counted up to a limit only.
SELECT p.pipeline, split_part(p.topic_id, '/', 1) AS topic_id, newest.at AS newest_record, q.question,
       (SELECT count(*) FROM (
           SELECT FROM offset_ledger.quarantine u
           WHERE u.pipeline = p.pipeline AND u.resolved_by IS NULL AND u.dismissed_by IS NULL LIMIT %(limit)s
       ) AS unresolved) AS quarantined
FROM offset_ledger.pipeline p
LEFT JOIN LATERAL (
    SELECT max(done.max_timestamp) AS at
    FROM offset_ledger.cursor c
    CROSS JOIN LATERAL (
        SELECT r.max_timestamp FROM offset_ledger.batch_range r
        WHERE r.pipeline = c.pipeline AND r.topic_id = c.topic_id AND r.partition = c.partition
          AND r.committed_until <= c.next_offset AND r.max_timestamp IS NOT NULL
        ORDER BY r.committed_until DESC LIMIT 1
    ) done
    WHERE c.pipeline = p.pipeline AND c.topic_id = p.topic_id
) newest ON true
LEFT JOIN LATERAL (
    SELECT d.question FROM offset_ledger.decision d
    WHERE d.pipeline = p.pipeline AND d.answered_at IS NULL ORDER BY d.asked_at LIMIT 1
) q ON true
ORDER BY p.pipeline
