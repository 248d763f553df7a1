-- What the open batch of these tables has refused, by reason; the same lines as operations/quarantined.sql gives.
WITH chosen AS (
    SELECT _partition, _offset, reason->>'code' AS code, reason->>'path' AS path, reason->>'detail' AS detail,
           row_number() OVER (PARTITION BY reason->>'code', reason->>'path' ORDER BY _partition, _offset) AS place
    FROM {refused} CROSS JOIN jsonb_array_elements(reasons) AS reason
)
SELECT code, path, count(DISTINCT (_partition, _offset)) AS records,
       array_agg(format('%%s:%%s', _partition, _offset) ORDER BY place) FILTER (WHERE place <= %(limit)s) AS examples,
       left(min(detail) FILTER (WHERE place = 1), 80) AS such_as
FROM chosen GROUP BY code, path
ORDER BY records DESC, code, path
