SELECT * FROM offset_ledger.decision
WHERE pipeline = %(pipeline)s AND answer IS NULL AND (%(kind)s::text IS NULL OR kind = %(kind)s) ORDER BY decision_id
