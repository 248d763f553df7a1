SELECT pipeline, topic, audited_at FROM offset_ledger.topic_audit
WHERE audit_id = %(audit_id)s AND (pipeline = %(pipeline)s OR (pipeline IS NULL AND topic = ANY(%(topics)s)))
