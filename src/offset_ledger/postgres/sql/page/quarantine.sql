-- Counted up to a limit only: above it the page shows "> 10,000".
WITH unresolved AS (
    SELECT quarantine_id, coalesce(retried_reasons, reasons) AS reasons FROM offset_ledger.quarantine
    WHERE pipeline = %(pipeline)s AND resolved_by IS NULL AND dismissed_by IS NULL LIMIT %(limit)s + 1
)
SELECT (SELECT count(*) FROM unresolved) AS waiting,
       (SELECT coalesce(jsonb_object_agg(code, records), '{}')
        FROM (SELECT r ->> 'code' AS code, count(DISTINCT quarantine_id) AS records
              FROM unresolved, jsonb_array_elements(reasons) AS r GROUP BY 1) AS counted) AS codes,
       (SELECT count(*) FROM (SELECT FROM offset_ledger.quarantine
        WHERE pipeline = %(pipeline)s AND dismissed_by IS NOT NULL LIMIT %(limit)s + 1) AS set_aside) AS dismissed
