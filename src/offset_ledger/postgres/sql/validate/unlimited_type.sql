-- What a domain, or an array of one, is made of, without the precision or length that the domain rounds or cuts values to.
WITH RECURSIVE made AS (
    SELECT coalesce(e.oid, t.oid) AS oid, -1 AS typmod, CASE WHEN e.oid IS NULL THEN '' ELSE '[]' END AS suffix
    FROM pg_type AS t LEFT JOIN pg_type AS e ON e.typarray = t.oid
    WHERE t.oid = to_regtype(%(type)s)
    UNION ALL
    SELECT typbasetype, greatest(typmod, typtypmod), suffix FROM made JOIN pg_type AS t USING (oid) WHERE typtype = 'd'
)
SELECT format_type(oid, -1) || suffix FROM made JOIN pg_type AS t USING (oid) WHERE typtype <> 'd' AND typmod <> -1
