-- Records of these pipelines that wait in quarantine, and dead letters that are not delivered.
SELECT count(*) AS records,
       (SELECT count(*) FROM offset_ledger.dead_letter d JOIN offset_ledger.quarantine q USING (quarantine_id)
        WHERE q.pipeline = ANY(%(names)s) AND d.delivered_at IS NULL AND q.dismissed_by IS NULL) AS letters
FROM offset_ledger.quarantine
WHERE pipeline = ANY(%(names)s) AND resolved_by IS NULL AND dismissed_by IS NULL
