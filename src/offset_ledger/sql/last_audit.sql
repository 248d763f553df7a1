SELECT rule, severity, audited_at
FROM offset_ledger.topic_audit
WHERE pipeline IS NOT DISTINCT FROM %(pipeline)s AND topic = %(topic)s
  AND audited_at = (SELECT max(audited_at) FROM offset_ledger.topic_audit
                    WHERE pipeline IS NOT DISTINCT FROM %(pipeline)s AND topic = %(topic)s)
