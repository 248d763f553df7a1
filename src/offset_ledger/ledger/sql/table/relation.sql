-- What the target table is, and what Postgres does there besides writing the rows. ``stores`` are the tables, it or its
-- partitions, whose rows are not as durable as the ledger.
WITH RECURSIVE family AS (
    SELECT to_regclass(format('%%I.%%I', %(schema)s, %(table)s))::oid AS relid
    UNION
    SELECT inhrelid FROM pg_inherits JOIN family ON inhparent = relid
)
SELECT format('%%I.%%I', nspname, relname) AS name,
       relkind,
       (SELECT coalesce(jsonb_agg(jsonb_build_array(format('%%I.%%I', s.nspname, m.relname),
                                        CASE m.relkind WHEN 'f' THEN m.relkind ELSE m.relpersistence END) ORDER BY m.relname), '[]')
        FROM family JOIN pg_class AS m ON m.oid = relid JOIN pg_namespace AS s ON s.oid = m.relnamespace
        WHERE m.relkind = 'f' OR m.relkind <> 'p' AND m.relpersistence <> 'p') AS stores,
       relkind = 'r' AND EXISTS (SELECT FROM pg_inherits WHERE inhparent = c.oid) AS has_children,
       row_security_active(c.oid) AS row_security,
       ARRAY(SELECT quote_ident(rulename) FROM pg_rewrite
             WHERE ev_class = c.oid AND rulename <> '_RETURN' ORDER BY 1) AS rules,
       EXISTS (SELECT FROM pg_index
               WHERE indrelid = c.oid AND indisunique AND indisvalid AND indpred IS NULL AND indnkeyatts = cardinality(%(key)s)
                 AND %(key)s::text[] = ARRAY(
                     SELECT attname::text FROM pg_attribute
                     WHERE attrelid = c.oid AND attnum = ANY ((indkey::int2[])[0:indnkeyatts - 1])
                     ORDER BY attname COLLATE "C")
              ) AS unique_key
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace
WHERE c.oid = to_regclass(format('%%I.%%I', %(schema)s, %(table)s))
