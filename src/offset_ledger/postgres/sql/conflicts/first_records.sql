SELECT _partition, _offset, count(*) OVER () AS records, reason->>'detail' AS detail
FROM (SELECT DISTINCT ON (_partition, _offset) * FROM pg_temp.conflicting WHERE place = ANY (%(places)s) ORDER BY _partition, _offset, place) AS each
ORDER BY _partition, _offset LIMIT 3
