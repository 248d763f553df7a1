-- Counted up to a limit only: above it the page shows "> 10,000".
WITH unresolved AS (
    SELECT coalesce(retried_reasons, reasons) AS reasons FROM offset_ledger.quarantine
    WHERE pipeline = %(pipeline)s AND resolved_by IS NULL AND dismissed_by IS NULL LIMIT %(limit)s + 1
)
SELECT (SELECT count(*) FROM unresolved) AS waiting,
       ARRAY(SELECT DISTINCT r ->> 'code' FROM unresolved, jsonb_array_elements(reasons) AS r ORDER BY 1) AS codes,
       (SELECT count(*) FROM (SELECT FROM offset_ledger.quarantine
        WHERE pipeline = %(pipeline)s AND dismissed_by IS NOT NULL LIMIT %(limit)s + 1) AS set_aside) AS dismissed
