SELECT attname, format('%%I.%%I', nspname, collname)
FROM pg_attribute JOIN pg_collation AS c ON c.oid = attcollation JOIN pg_namespace AS n ON n.oid = collnamespace
WHERE attrelid = to_regclass(format('%%I.%%I', %(schema)s, %(table)s)) AND attname = ANY (%(columns)s) AND NOT attisdropped
