-- The enabled triggers, and whether they fire for each row, of a table and of its partitions, but for those that keep foreign keys.
WITH RECURSIVE family AS (
    SELECT to_regclass(format('%%I.%%I', %(schema)s, %(table)s))::oid AS relid
    UNION
    SELECT inhrelid FROM pg_inherits JOIN family ON inhparent = relid
)
SELECT tgname, bool_or(tgtype & 1 = 1) AS of_rows FROM pg_trigger JOIN family ON tgrelid = relid
WHERE NOT tgisinternal AND tgenabled <> 'D'
GROUP BY 1 ORDER BY 1
