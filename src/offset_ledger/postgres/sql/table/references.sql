-- The foreign keys of the table that Postgres checks: the columns that refer, in ``parts`` as the operators of the key take them, and ``referenced``
-- the columns that they are compared with. One that refers to a partitioned table has further ones, to its partitions.
SELECT quote_ident(conname) AS name, format('%%I.%%I', n.nspname, f.relname) AS table, f.relkind = 'p' AS is_partitioned,
       confrelid = conrelid AS is_self, confmatchtype = 'f' AS is_full,
       has_schema_privilege(n.oid, 'USAGE') AND NOT row_security_active(f.oid)
           AND (SELECT bool_and(has_column_privilege(f.oid, each, 'SELECT')) FROM unnest(confkey) AS each) AS is_readable,
       k.columns, k.parts, k.referenced, k.operators, k.involved, k.is_generated
FROM pg_constraint AS c JOIN pg_class AS f ON f.oid = confrelid JOIN pg_namespace AS n ON n.oid = f.relnamespace
CROSS JOIN LATERAL (
    SELECT array_agg(quote_ident(a.attname) ORDER BY place) AS columns,
           array_agg(concat(quote_ident(a.attname), '::', format_type(of_right.oid, -1),
                            CASE WHEN l.oid > 0 THEN format(' COLLATE %%I.%%I', s.nspname, collname) END) ORDER BY place) AS parts,
           array_agg(concat(quote_ident(r.attname), '::', format_type(of_left.oid, -1)) ORDER BY place) AS referenced,
           array_agg(format('OPERATOR(%%I.%%s)', o.nspname, oprname) ORDER BY place) AS operators,
           array_agg(a.attname::text) AS involved, bool_or(a.attgenerated <> '') AS is_generated
    FROM unnest(conkey, confkey, conpfeqop) WITH ORDINALITY AS u (own, other, operator, place)
    JOIN pg_attribute AS a ON (a.attrelid, a.attnum) = (conrelid, own) JOIN pg_type AS own_type ON own_type.oid = a.atttypid
    JOIN pg_attribute AS r ON (r.attrelid, r.attnum) = (confrelid, other) JOIN pg_type AS other_type ON other_type.oid = r.atttypid
    JOIN pg_operator AS p ON p.oid = operator JOIN pg_namespace AS o ON o.oid = oprnamespace
    JOIN pg_type AS taken_left ON taken_left.oid = oprleft JOIN pg_type AS taken_right ON taken_right.oid = oprright
    -- An operator of any enum or any array takes the values as they are.
    CROSS JOIN LATERAL (SELECT CASE WHEN taken_left.typtype <> 'p' THEN oprleft ELSE coalesce(nullif(other_type.typbasetype, 0), other_type.oid) END) AS of_left (oid)
    CROSS JOIN LATERAL (SELECT CASE WHEN taken_right.typtype <> 'p' THEN oprright ELSE coalesce(nullif(own_type.typbasetype, 0), own_type.oid) END) AS of_right (oid)
    LEFT JOIN (pg_collation AS l JOIN pg_namespace AS s ON s.oid = collnamespace) ON l.oid = r.attcollation
) AS k
WHERE contype = 'f' AND conrelid = to_regclass(format('%%I.%%I', %(schema)s, %(table)s))
  AND NOT EXISTS (SELECT FROM pg_constraint AS w WHERE w.oid = c.conparentid AND w.conrelid = c.conrelid)
  -- By name, for they are columns of Postgres 18.
  AND coalesce((to_jsonb(c)->>'conenforced')::boolean, true) AND NOT coalesce((to_jsonb(c)->>'conperiod')::boolean, false)
ORDER BY 1
