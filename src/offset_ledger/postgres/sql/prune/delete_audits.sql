DELETE FROM offset_ledger.topic_audit WHERE audit_id = ANY(%(ids)s)
