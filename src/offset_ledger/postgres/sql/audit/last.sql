SELECT rule, severity, audited_at
FROM offset_ledger.topic_audit
WHERE topic = %(topic)s AND (pipeline = %(pipeline)s OR (%(pipeline)s::text IS NULL AND pipeline IS NULL))
  AND audited_at = (
    SELECT max(audited_at) FROM offset_ledger.topic_audit
    WHERE topic = %(topic)s AND (pipeline = %(pipeline)s OR (%(pipeline)s::text IS NULL AND pipeline IS NULL)))
