-- What keeps rows apart by more or by other things than the event id.
SELECT quote_ident(relname)
FROM pg_index
JOIN pg_class AS c ON c.oid = indexrelid
JOIN pg_attribute ON attrelid = indrelid AND attname = 'event_id'
WHERE indrelid = to_regclass(format('%%I.%%I', %(schema)s, %(table)s)) AND (indisunique OR indisexclusion)
  AND NOT (indisunique AND indnkeyatts = 1 AND indkey[0] = attnum)
ORDER BY 1
