SELECT audited_at, topic, rule, severity, found, risk, remedy
FROM offset_ledger.topic_audit
WHERE (pipeline = %(pipeline)s OR (pipeline IS NULL AND topic = %(topic)s))
  AND audited_at = (
    SELECT max(audited_at) FROM offset_ledger.topic_audit
    WHERE pipeline = %(pipeline)s OR (pipeline IS NULL AND topic = %(topic)s))
ORDER BY array_position(ARRAY['error', 'warning', 'info', 'ok'], severity), rule
