-- What the target table is, and what Postgres does there besides writing the rows.
SELECT format('%%I.%%I', nspname, relname) AS name,
       relkind,
       relpersistence,
       relkind = 'r' AND EXISTS (SELECT FROM pg_inherits WHERE inhparent = c.oid) AS has_children,
       row_security_active(c.oid) AS row_security,
       ARRAY(SELECT quote_ident(rulename) FROM pg_rewrite
             WHERE ev_class = c.oid AND rulename <> '_RETURN' ORDER BY 1) AS rules,
       EXISTS (SELECT FROM pg_index
               JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0] AND attname = 'event_id'
               WHERE indrelid = c.oid AND indisunique AND indisvalid AND indpred IS NULL AND indnkeyatts = 1
              ) AS unique_event_id
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace
WHERE c.oid = to_regclass(format('%%I.%%I', %(schema)s, %(table)s))
