-- What the decoder refused, not the suite.
SELECT reason->>'code', count(DISTINCT (_partition, _offset))
FROM {refused} CROSS JOIN jsonb_array_elements(reasons) AS reason
WHERE reason->>'code' !~ '^expect_' GROUP BY 1 ORDER BY 2 DESC, 1
