-- Counted only so far: the page says "more than" beyond.
SELECT count(*) AS waiting FROM (
    SELECT FROM offset_ledger.quarantine
    WHERE pipeline = %(pipeline)s AND resolved_by IS NULL LIMIT %(most)s + 1
) AS unresolved
