-- Counted, and looked into, only so far: the page says "more than" beyond.
WITH unresolved AS (
    SELECT coalesce(retried_reasons, reasons) AS reasons FROM offset_ledger.quarantine
    WHERE pipeline = %(pipeline)s AND resolved_by IS NULL AND dismissed_by IS NULL LIMIT %(most)s + 1
)
SELECT (SELECT count(*) FROM unresolved) AS waiting,
       ARRAY(SELECT DISTINCT r ->> 'code' FROM unresolved, jsonb_array_elements(reasons) AS r ORDER BY 1) AS codes,
       (SELECT count(*) FROM (SELECT FROM offset_ledger.quarantine
        WHERE pipeline = %(pipeline)s AND dismissed_by IS NOT NULL LIMIT %(most)s + 1) AS set_aside) AS dismissed
