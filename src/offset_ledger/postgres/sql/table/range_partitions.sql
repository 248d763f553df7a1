-- The column by whose ranges the table is partitioned, the bounds of its partitions (NULL is none), and its default partition.
WITH bounds AS (
    SELECT c.oid AS partition, pg_get_expr(relpartbound, c.oid) AS bound FROM pg_inherits JOIN pg_class AS c ON c.oid = inhrelid
    WHERE inhparent = to_regclass(format('%%I.%%I', %(schema)s, %(table)s))
)
SELECT attname AS name, format_type(atttypid, NULL) AS type,
       ARRAY(SELECT substring(bound FROM 'FROM \(''(.*?)''\) TO') FROM bounds WHERE bound <> 'DEFAULT' ORDER BY partition) AS lowers,
       ARRAY(SELECT substring(bound FROM 'TO \(''(.*)''\)$') FROM bounds WHERE bound <> 'DEFAULT' ORDER BY partition) AS uppers,
       (SELECT partition::regclass::text FROM bounds WHERE bound = 'DEFAULT') AS rest
FROM pg_partitioned_table JOIN pg_attribute ON attrelid = partrelid AND attnum = partattrs[0]
WHERE partrelid = to_regclass(format('%%I.%%I', %(schema)s, %(table)s)) AND partstrat = 'r' AND partnatts = 1
