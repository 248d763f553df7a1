-- What a domain, or an array of one, is made of, without the precision or length that the domain rounds or cuts values to;
-- and what in a text no value of the type keeps: digits below the microsecond, the time of a date, parts of a cent.
WITH RECURSIVE made AS (
    SELECT coalesce(e.oid, t.oid) AS oid, -1 AS typmod, CASE WHEN e.oid IS NULL THEN '' ELSE '[]' END AS suffix
    FROM pg_type AS t LEFT JOIN pg_type AS e ON e.typarray = t.oid
    WHERE t.oid = to_regtype(%(type)s)
    UNION ALL
    SELECT typbasetype, greatest(typmod, typtypmod), suffix FROM made JOIN pg_type AS t USING (oid) WHERE typtype = 'd'
)
SELECT CASE WHEN oid IN ('name'::regtype, '"char"'::regtype) THEN 'text' || suffix
            WHEN typmod <> -1 THEN format_type(oid, -1) || suffix END,
       CASE WHEN oid = 'money'::regtype THEN '\.[0-9]{2}[0-9]*[1-9]'
            WHEN coalesce(rngsubtype, oid) = 'date'::regtype THEN '[1-9][0-9]?:|:[0-9]?[1-9]'
            -- Parts of an hour and of longer units can be whole microseconds.
            WHEN (SELECT typcategory FROM pg_type WHERE oid = coalesce(rngsubtype, made.oid)) IN ('D', 'T')
            THEN '\.[0-9]{6}[0-9]*[1-9][0-9]*(?! *[0-9hmdwy])' END
FROM made JOIN pg_type AS t USING (oid) LEFT JOIN pg_range ON oid IN (rngtypid, rngmultitypid) WHERE typtype <> 'd'
