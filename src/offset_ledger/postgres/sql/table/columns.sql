-- Every column of the table, and every one that it should have: those of the pipeline file first. A type that is not
-- Postgres's own has its schema, whatever the search_path is.
SELECT name, quote_ident(name) AS quoted, a.attname IS NOT NULL AS there,
       (SELECT CASE n.nspname WHEN 'pg_catalog' THEN format_type(atttypid, atttypmod)
                    ELSE concat(quote_ident(n.nspname), '.', quote_ident(coalesce(e.typname, t.typname)),
                                substring(format_type(atttypid, atttypmod) FROM '\([^)]*\)'), CASE WHEN e.oid > 0 THEN '[]' END) END
        FROM pg_type AS t LEFT JOIN pg_type AS e ON e.oid = t.typelem AND e.typarray = t.oid
        JOIN pg_namespace AS n ON n.oid = coalesce(e.typnamespace, t.typnamespace) WHERE t.oid = atttypid) AS type,
       coalesce(attnotnull, false) AS not_null,
       coalesce((SELECT typnotnull FROM pg_type WHERE oid = atttypid), false) AS domain_not_null,
       atthasdef OR attidentity <> '' AS filled,
       coalesce(attgenerated, '') AS generated,
       coalesce(attidentity, '') = 'a' AS always_identity,
       (SELECT quote_ident(collname) FROM pg_collation
        WHERE oid = attcollation AND collname NOT IN ('default', 'C')) AS collation,
       (SELECT format('%%I.%%I', nspname, collname) FROM pg_collation AS c JOIN pg_namespace AS n ON n.oid = collnamespace
        WHERE c.oid = attcollation AND collname <> 'default') AS collated,
       EXISTS (SELECT FROM pg_index WHERE indrelid = attrelid AND indisprimary AND attnum = ANY (indkey::int2[])) AS in_primary_key,
       ARRAY(SELECT quote_ident(conname) FROM pg_constraint
             WHERE conrelid = attrelid AND contype = 'c' AND pg_get_constraintdef(oid) NOT LIKE '%% NOT ENFORCED'
               AND pg_get_expr(conbin, conrelid) = format('(_deleted OR (%%I IS NOT NULL))', name)
             ORDER BY 1) AS unless_deleted,
       ARRAY(SELECT quote_ident(conname) FROM pg_constraint
             WHERE conrelid = attrelid AND contype = 'c' AND pg_get_constraintdef(oid) NOT LIKE '%% NOT ENFORCED'
               AND pg_get_expr(conbin, conrelid) = format('(%%I IS NOT NULL)', name)
             ORDER BY 1) AS never_null
FROM unnest(%(columns)s::text[]) WITH ORDINALITY AS d(name, place)
FULL JOIN (SELECT *, attname::text AS name FROM pg_attribute
           WHERE attrelid = to_regclass(format('%%I.%%I', %(schema)s, %(table)s)) AND attnum > 0 AND NOT attisdropped
          ) AS a USING (name)
ORDER BY place, attnum
