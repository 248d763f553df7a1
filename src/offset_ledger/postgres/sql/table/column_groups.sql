-- The columns that topics of the file have written, and the group that orders each, '' for the row.
SELECT DISTINCT d.name, coalesce(g.group_name, '') AS group_name
FROM offset_ledger.declared_column AS d JOIN offset_ledger.pipeline AS p USING (pipeline)
LEFT JOIN offset_ledger.column_group AS g ON (g.file, g.name) = (p.file, d.name)
WHERE p.file = %(file)s
