SELECT count(*) AS records FROM offset_ledger.quarantine
WHERE pipeline = ANY(%(names)s) AND resolved_by IS NULL AND dismissed_by IS NULL
