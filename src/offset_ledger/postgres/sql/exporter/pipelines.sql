-- What waits, and the newest head commit.
SELECT p.pipeline, c.moved_at, c.newest, s.stage, s.validate, s.commit,
       (SELECT count(*) FROM offset_ledger.batch b WHERE b.pipeline = p.pipeline AND b.state = 'rejected') AS rejected,
       (SELECT count(*) FROM offset_ledger.decision d WHERE d.pipeline = p.pipeline AND d.answer IS NULL) AS questions,
       (SELECT count(*) FROM offset_ledger.dead_letter d JOIN offset_ledger.quarantine q USING (quarantine_id)
        WHERE q.pipeline = p.pipeline AND d.delivered_at IS NULL AND q.dismissed_by IS NULL) AS dead_letters
FROM offset_ledger.pipeline p
LEFT JOIN LATERAL (
    SELECT max(updated_at) AS moved_at, max(newest) AS newest, max(batch_id) AS batch_id
    FROM offset_ledger.cursor WHERE cursor.pipeline = p.pipeline AND cursor.topic_id = p.topic_id
) c ON true
LEFT JOIN LATERAL (
    SELECT extract(epoch FROM staged_at - claimed_at)::float AS stage,
           extract(epoch FROM validated_at - staged_at)::float AS validate,
           extract(epoch FROM ended_at - validated_at)::float AS commit
    FROM offset_ledger.batch WHERE batch.batch_id = c.batch_id
) s ON true
WHERE p.pipeline = ANY(%(pipelines)s)
