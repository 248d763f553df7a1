-- The enabled triggers of a table and of its partitions, but for those that keep foreign keys.
WITH RECURSIVE family AS (
    SELECT to_regclass(format('%%I.%%I', %(schema)s, %(table)s))::oid AS relid
    UNION
    SELECT inhrelid FROM pg_inherits JOIN family ON inhparent = relid
)
SELECT DISTINCT tgname FROM pg_trigger JOIN family ON tgrelid = relid
WHERE NOT tgisinternal AND tgenabled <> 'D'
ORDER BY 1
