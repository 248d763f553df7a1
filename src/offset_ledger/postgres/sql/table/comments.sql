-- The comments of the table ('' in names) and of its columns that are not those of the pipeline file. A comment that
-- others wrote stays; those of the ledger are in target_change.
WITH wanted AS (
    SELECT c.oid AS relid, a.attnum, d.name, nullif(d.text, '') AS text,
           CASE d.name WHEN '' THEN format('TABLE %%I.%%I', %(schema)s, %(table)s)
                       ELSE format('COLUMN %%I.%%I.%%I', %(schema)s, %(table)s, d.name) END AS object
    FROM unnest(%(names)s::text[], %(texts)s::text[]) AS d(name, text)
    JOIN pg_class AS c ON c.oid = to_regclass(format('%%I.%%I', %(schema)s, %(table)s)) AND pg_has_role(relowner, 'USAGE')
    LEFT JOIN pg_attribute AS a ON attrelid = c.oid AND attname = d.name AND NOT attisdropped
    WHERE d.name = '' OR a.attnum IS NOT NULL
), compared AS (
    SELECT *, CASE name WHEN '' THEN obj_description(relid, 'pg_class') ELSE col_description(relid, attnum) END AS there
    FROM wanted
)
SELECT lower(substr(object, 1, 1)) || substr(object, 2) AS object, format('COMMENT ON %%s IS %%L', object, text) AS statement
FROM compared
WHERE there IS DISTINCT FROM text
  AND (there IS NULL OR EXISTS (SELECT FROM offset_ledger.target_change JOIN offset_ledger.pipeline AS p USING (pipeline)
                               WHERE p.file = %(file)s AND clause = format('COMMENT ON %%s IS %%L', object, there)))
ORDER BY attnum NULLS FIRST
