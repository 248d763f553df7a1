SELECT attname
FROM offset_ledger.declared_column AS d
JOIN pg_attribute ON attname = d.name AND attrelid = to_regclass(format('%%I.%%I', %(schema)s, %(table)s))
WHERE d.pipeline = %(pipeline)s AND d.name <> ALL (%(declared)s::text[]) AND NOT attisdropped AND attgenerated = ''
ORDER BY attnum
