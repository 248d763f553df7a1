-- Whether foreign keys of the table, or of a partition of it, refer to the table itself; ``acts`` where they also change or delete rows.
SELECT count(*) > 0 AS there, coalesce(bool_or(confupdtype IN ('c', 'n', 'd') OR confdeltype IN ('c', 'n', 'd')), false) AS acts
FROM pg_constraint
WHERE contype = 'f' AND conrelid = confrelid AND conrelid = to_regclass(format('%%I.%%I', %(schema)s, %(table)s))
