-- What keeps rows of different keys apart, with its columns and expressions in SQL, and all columns that these are of; ``waits`` where it is judged after a statement.
SELECT quote_ident(relname) AS name, indisexclusion AS excludes, NOT indimmediate AS waits, indnullsnotdistinct AS nulls_are_equal,
       coalesce(pg_get_expr(indpred, indrelid), 'true') AS predicate,
       ARRAY(SELECT pg_get_indexdef(indexrelid, n, false) FROM generate_series(1, indnkeyatts) AS n ORDER BY n) AS columns,
       ARRAY(SELECT concat(pg_get_indexdef(indexrelid, n, false),
                           CASE WHEN l.oid > 0 THEN format(' COLLATE %%I.%%I', nspname, collname) END)
             FROM generate_series(1, indnkeyatts) AS n
             LEFT JOIN (pg_collation AS l JOIN pg_namespace AS s ON s.oid = collnamespace) ON l.oid = (indcollation::oid[])[n - 1]
             ORDER BY n) AS parts,
       ARRAY(SELECT attname::text FROM pg_attribute
             WHERE attrelid = indrelid AND attnum IN (
                 SELECT unnest(indkey::int2[])
                 UNION SELECT v[1]::int FROM regexp_matches(concat(indexprs, indpred), ':varattno ([0-9]+)', 'g') AS v
                 UNION SELECT v[1]::int FROM pg_attrdef AS d JOIN pg_attribute AS g ON (g.attrelid, g.attnum) = (adrelid, adnum),
                              regexp_matches(adbin::text, ':varattno ([0-9]+)', 'g') AS v
                       WHERE adrelid = indrelid AND attgenerated <> ''
                         AND (adnum = ANY (indkey::int2[]) OR concat(indexprs, indpred) ~ concat(':varattno ', adnum, '[^0-9]')))
            ) AS involved
FROM pg_index JOIN pg_class AS c ON c.oid = indexrelid
CROSS JOIN LATERAL (SELECT array_agg(attname::text) AS names
                    FROM pg_attribute WHERE attrelid = indrelid AND attnum = ANY ((indkey::int2[])[0:indnkeyatts - 1])) AS a
WHERE indrelid = to_regclass(format('%%I.%%I', %(schema)s, %(table)s)) AND (indisunique OR indisexclusion)
  AND NOT (indisunique AND coalesce(a.names @> %(key)s::text[], false))
ORDER BY 1
