-- Whatever topic of its file wrote them.
SELECT DISTINCT attname, attnum
FROM offset_ledger.declared_column AS d
JOIN offset_ledger.pipeline AS p USING (pipeline)
JOIN pg_attribute ON attname = d.name AND attrelid = to_regclass(format('%%I.%%I', %(schema)s, %(table)s))
WHERE p.file = %(file)s AND d.name <> ALL (%(declared)s::text[]) AND NOT attisdropped AND attgenerated = ''
ORDER BY attnum
