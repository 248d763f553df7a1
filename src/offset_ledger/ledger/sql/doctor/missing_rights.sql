-- What docs/production.md grants to the login that runs pipelines, and this login lacks; of schemas and tables that exist.
WITH wanted_on_schema (name, privileges) AS (
    VALUES ('offset_ledger', ARRAY['USAGE']),
           ('offset_ledger_staging', ARRAY['USAGE', 'CREATE']),
           (%(schema)s, CASE WHEN to_regclass(format('%%I.%%I', %(schema)s, %(table)s)) IS NULL
                             THEN ARRAY['USAGE', 'CREATE'] ELSE ARRAY['USAGE'] END)
), wanted_on_table AS (
    SELECT c.oid, n.nspname, c.relname, privilege
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS privilege
    WHERE c.relkind IN ('r', 'p')
      AND (n.nspname = 'offset_ledger' OR (n.nspname, c.relname) = (%(schema)s, %(table)s))
      AND (privilege <> 'DELETE' OR (n.nspname, c.relname) = ('offset_ledger', 'topic_look'))
)
SELECT 'TEMPORARY on the database' WHERE NOT has_database_privilege(current_database(), 'TEMPORARY')
UNION ALL
SELECT format('%%s on schema %%s', privilege, w.name)
FROM wanted_on_schema w JOIN pg_namespace n ON n.nspname = w.name CROSS JOIN unnest(w.privileges) AS privilege
WHERE NOT has_schema_privilege(n.oid, privilege)
UNION ALL
SELECT 'CREATE on the database, or an existing schema ' || %(schema)s
WHERE NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = %(schema)s) AND NOT has_database_privilege(current_database(), 'CREATE')
UNION ALL
(SELECT format('%%s on %%s.%%s', privilege, nspname, relname) FROM wanted_on_table
 WHERE NOT has_table_privilege(oid, privilege) ORDER BY relname, privilege)
