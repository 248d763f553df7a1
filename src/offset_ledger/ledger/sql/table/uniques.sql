-- What keeps rows apart by more or by other things than the key.
SELECT quote_ident(relname)
FROM pg_index JOIN pg_class AS c ON c.oid = indexrelid
CROSS JOIN LATERAL (SELECT array_agg(attname::text ORDER BY attname COLLATE "C") AS names
                    FROM pg_attribute WHERE attrelid = indrelid AND attnum = ANY ((indkey::int2[])[0:indnkeyatts - 1])) AS a
WHERE indrelid = to_regclass(format('%%I.%%I', %(schema)s, %(table)s)) AND (indisunique OR indisexclusion)
  AND NOT (indisunique AND NOT 0 = ANY (indkey) AND a.names = %(key)s::text[])
ORDER BY 1
