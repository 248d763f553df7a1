-- What the target table is, and what Postgres does there besides writing the rows. ``stores`` are the tables, it or its
-- partitions, whose rows are not as durable as the ledger. ``parted_by`` are the partition columns of all levels, '' for an
-- expression; ``ranges_of`` is the first one, if it alone divides the table into ranges.
WITH RECURSIVE family AS (
    SELECT to_regclass(format('%%I.%%I', %(schema)s, %(table)s))::oid AS relid
    UNION
    SELECT inhrelid FROM pg_inherits JOIN family ON inhparent = relid
), parted AS (
    SELECT coalesce(array_agg(DISTINCT coalesce(attname::text, '')), '{}') AS parted_by
    FROM family JOIN pg_partitioned_table ON partrelid = relid CROSS JOIN unnest(partattrs::int2[]) AS attribute
    LEFT JOIN pg_attribute AS a ON attrelid = relid AND attnum = attribute AND attnum > 0
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
       parted_by,
       (SELECT attname::text FROM pg_partitioned_table JOIN pg_attribute ON attrelid = partrelid AND attnum = partattrs[0]
        WHERE partrelid = c.oid AND partstrat = 'r' AND partnatts = 1) AS ranges_of,
       EXISTS (SELECT FROM pg_index CROSS JOIN LATERAL (
                   SELECT array_agg(attname::text) AS names FROM pg_attribute
                   WHERE attrelid = c.oid AND attnum = ANY ((indkey::int2[])[0:indnkeyatts - 1])) AS a
               WHERE indrelid = c.oid AND indisunique AND indisvalid AND indpred IS NULL AND indnkeyatts = cardinality(names)
                 AND names @> %(key)s::text[] AND names <@ (%(key)s::text[] || parted_by)
              ) AS unique_key
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace CROSS JOIN parted
WHERE c.oid = to_regclass(format('%%I.%%I', %(schema)s, %(table)s))
