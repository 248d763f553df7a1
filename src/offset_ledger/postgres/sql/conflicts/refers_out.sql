-- Whether a constraint is a foreign key of the table, or of a partition of it, to another table.
WITH family AS (
    SELECT to_regclass(format('%%I.%%I', %(schema)s, %(table)s)) AS relid
    UNION
    SELECT relid FROM pg_partition_tree(format('%%I.%%I', %(schema)s, %(table)s))
)
SELECT EXISTS (SELECT FROM pg_constraint
               WHERE conrelid = to_regclass(format('%%I.%%I', %(of_schema)s, %(of_table)s)) AND conname = %(constraint)s
                 AND conrelid IN (SELECT relid FROM family) AND confrelid NOT IN (SELECT relid FROM family))
