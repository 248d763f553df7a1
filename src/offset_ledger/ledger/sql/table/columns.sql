-- Every column of the table, and every one that it should have: those of the pipeline file first.
SELECT name, quote_ident(name) AS quoted, a.attname IS NOT NULL AS there,
       format_type(atttypid, atttypmod) AS type,
       coalesce(attnotnull, false) AS not_null,
       atthasdef OR attidentity <> '' AS filled,
       coalesce(attgenerated, '') AS generated,
       coalesce(attidentity, '') = 'a' AS always_identity,
       (SELECT quote_ident(collname) FROM pg_collation
        WHERE oid = attcollation AND collname NOT IN ('default', 'C')) AS collation,
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
