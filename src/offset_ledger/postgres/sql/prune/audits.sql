-- The next results of audits of the pipeline, and which of them go: old ones, but for the newest audit of each topic.
SELECT audit_id AS id, audited_at < %(older_than)s
       AND EXISTS (SELECT FROM offset_ledger.topic_audit n
                   WHERE (n.pipeline, n.topic) = (a.pipeline, a.topic) AND n.audited_at > a.audited_at) AS goes
FROM offset_ledger.topic_audit AS a
WHERE pipeline = ANY(%(names)s) AND audit_id > %(after)s ORDER BY audit_id LIMIT %(limit)s
