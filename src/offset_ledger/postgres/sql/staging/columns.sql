-- The type of a text that Postgres judges is in its comment.
SELECT attname, coalesce(col_description(attrelid, attnum), format_type(atttypid, atttypmod)) FROM pg_attribute
WHERE attrelid = to_regclass(%(table)s) AND attnum > 0 AND NOT attisdropped
