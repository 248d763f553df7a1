-- The columns of the table that no topic of the file has ever written.
SELECT attname FROM pg_attribute
WHERE attrelid = to_regclass(format('%%I.%%I', %(schema)s, %(table)s)) AND attnum > 0 AND NOT attisdropped
  AND attname::text NOT IN (SELECT d.name FROM offset_ledger.declared_column AS d JOIN offset_ledger.pipeline AS p USING (pipeline)
                           WHERE p.file = %(file)s)
