-- The columns of every primary key and unique index that knows each row of the table, the primary key first.
SELECT ARRAY(SELECT attname::text FROM unnest((indkey::int2[])[0:indnkeyatts - 1]) WITH ORDINALITY AS k(number, place)
             JOIN pg_attribute AS a ON a.attrelid = indrelid AND a.attnum = k.number ORDER BY place) AS columns
FROM pg_index
WHERE indrelid = to_regclass(format('%%I.%%I', %(schema)s, %(table)s)) AND indisunique AND indisvalid
  AND indpred IS NULL AND indexprs IS NULL
ORDER BY indisprimary DESC, indexrelid
