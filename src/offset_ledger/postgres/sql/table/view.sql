-- What has the name of the view, its columns, and whether the ledger made it.
SELECT relkind, ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 ORDER BY attnum) AS columns,
       relkind = 'v' AND EXISTS (
           SELECT FROM offset_ledger.target_change JOIN offset_ledger.pipeline AS p USING (pipeline)
           WHERE p.file = %(file)s AND starts_with(clause, format('CREATE OR REPLACE VIEW "%%s"."%%s" AS ', replace(%(schema)s, '"', '""'), replace(%(view)s, '"', '""')))
       ) AS ours
FROM pg_class AS c WHERE c.oid = to_regclass(format('%%I.%%I', %(schema)s, %(view)s))
