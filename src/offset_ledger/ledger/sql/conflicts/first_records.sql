SELECT _partition, _offset, count(*) OVER () AS records FROM (SELECT DISTINCT _partition, _offset FROM pg_temp.conflicting) AS each
ORDER BY _partition, _offset LIMIT 3
