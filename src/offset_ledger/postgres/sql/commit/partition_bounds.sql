-- What a partition of the table is made for, with the value that none takes yet.
SELECT CASE partstrat WHEN 'l' THEN format('IN (%%s)', %(value)s::text)
                      WHEN 'r' THEN format('FROM (%%s) TO (...)', %(value)s::text)
                      ELSE 'WITH (MODULUS ..., REMAINDER ...)' END
FROM pg_partitioned_table WHERE partrelid = to_regclass(%(table)s)
