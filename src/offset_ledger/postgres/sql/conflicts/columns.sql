-- What fills each column that a statement leaves out. Nobody knows it before where ``unforeseen``: an identity, or a default that calls a
-- function which is not immutable.
SELECT attname::text AS name, format_type(atttypid, atttypmod) AS type,
       CASE WHEN attgenerated <> '' THEN pg_get_expr(adbin, adrelid) END AS generated,
       CASE WHEN attgenerated = '' THEN coalesce(pg_get_expr(adbin, adrelid), pg_get_expr(typdefaultbin, 'pg_type'::regclass)) END AS filled,
       attidentity <> '' OR attgenerated = '' AND (tree LIKE '%%{SQLVALUEFUNCTION %%' OR EXISTS (
           SELECT FROM regexp_matches(tree, ':(?:func|opfunc)id ([0-9]+)', 'g') AS m (called) JOIN pg_proc AS p ON p.oid = called[1]::oid
           WHERE provolatile <> 'i')) AS unforeseen
FROM pg_attribute JOIN pg_type AS y ON y.oid = atttypid LEFT JOIN pg_attrdef ON (adrelid, adnum) = (attrelid, attnum)
CROSS JOIN LATERAL coalesce(adbin::text, typdefaultbin::text, '') AS tree
WHERE attrelid = to_regclass(format('%%I.%%I', %(schema)s, %(table)s)) AND attnum > 0 AND NOT attisdropped
ORDER BY attnum
