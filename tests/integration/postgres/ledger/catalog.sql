-- The ledger as its catalogs have it, a line each: the columns of each table in their order, then what belongs to the table by name.
WITH ours AS (SELECT oid, nspname FROM pg_namespace WHERE nspname LIKE 'offset_ledger%'),
relations AS (SELECT c.* FROM pg_class c JOIN ours ON ours.oid = relnamespace WHERE relkind IN ('r', 'v', 'c'))
SELECT regexp_replace(line, '\s+', ' ', 'g') FROM (
    SELECT 'schema ' || nspname, 0, 0 FROM ours
    UNION ALL
    SELECT concat_ws(' ', relname || '.' || attname, format_type(atttypid, atttypmod), 'COLLATE ' || nullif(collname, 'default'),
                     CASE WHEN attnotnull THEN 'NOT NULL' END, CASE attidentity WHEN 'a' THEN 'GENERATED ALWAYS AS IDENTITY' END,
                     CASE attgenerated WHEN 's' THEN 'GENERATED ALWAYS AS' ELSE 'DEFAULT' END || ' ' || pg_get_expr(adbin, adrelid)),
           1, attnum
    FROM relations JOIN pg_attribute a ON attrelid = relations.oid AND attnum > 0 AND NOT attisdropped
    LEFT JOIN pg_attrdef ON (adrelid, adnum) = (attrelid, attnum) LEFT JOIN pg_collation l ON l.oid = attcollation
    UNION ALL
    SELECT relname || ': ' || conname || ' ' || pg_get_constraintdef(k.oid), 2, 0
    FROM pg_constraint k JOIN relations ON relations.oid = conrelid WHERE contype <> 'n'
    UNION ALL
    SELECT relname || ': ' || pg_get_indexdef(indexrelid), 2, 0
    FROM pg_index JOIN relations ON relations.oid = indrelid
    WHERE NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid AND contype IN ('p', 'u'))
    UNION ALL
    SELECT relname || ': ' || pg_get_triggerdef(t.oid), 2, 0
    FROM pg_trigger t JOIN relations ON relations.oid = tgrelid WHERE NOT tgisinternal
    UNION ALL
    SELECT relname || ': ' || replace(pg_get_viewdef(oid), 'quarantine.', ''), 2, 0
    FROM relations WHERE relkind = 'v'
    UNION ALL
    SELECT concat_ws(' ', oid::regprocedure, 'RETURNS ' || pg_get_function_result(oid), lanname, provolatile, proparallel,
                     CASE WHEN proisstrict THEN 'STRICT' END, md5(prosrc)), 3, 0
    FROM (SELECT p.*, lanname FROM pg_proc p JOIN ours ON ours.oid = pronamespace JOIN pg_language l ON l.oid = prolang) AS p
    UNION ALL
    SELECT relname || ' grants ' || relacl::text, 4, 0 FROM relations WHERE relacl IS NOT NULL
) AS each (line, part, place)
ORDER BY part, CASE part WHEN 1 THEN split_part(line, '.', 1) END COLLATE "C", place, line COLLATE "C"
