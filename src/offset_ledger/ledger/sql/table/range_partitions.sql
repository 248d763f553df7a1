-- The column by whose ranges the table is partitioned, and in SQL over a period ``p`` with a value of it, whether a partition
-- covers that; the default partition covers the periods of its rows.
SELECT attname AS name, format_type(atttypid, NULL) AS type,
       coalesce((SELECT string_agg(CASE pg_get_expr(relpartbound, c.oid)
                     WHEN 'DEFAULT' THEN format('EXISTS (SELECT FROM %%s AS d WHERE d.%%I >= p._starts AND d.%%I < p._ends)',
                                                c.oid::regclass, attname, attname)
                     ELSE pg_get_partition_constraintdef(c.oid) END, ' OR ')
                 FROM pg_inherits JOIN pg_class AS c ON c.oid = inhrelid WHERE inhparent = partrelid), 'false') AS covered
FROM pg_partitioned_table JOIN pg_attribute ON attrelid = partrelid AND attnum = partattrs[0]
WHERE partrelid = to_regclass(format('%%I.%%I', %(schema)s, %(table)s)) AND partstrat = 'r' AND partnatts = 1
