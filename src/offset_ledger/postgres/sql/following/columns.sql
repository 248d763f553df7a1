-- The columns that the pipelines of a file have by schemas, oldest first: the committed ones, and those of this batch.
SELECT name, path, type, encoding, schema_id, batch_id FROM offset_ledger.followed_column
WHERE split_part(pipeline, '@', 1) = split_part(%(pipeline)s, '@', 1)
  AND (committed_at IS NOT NULL OR (pipeline = %(pipeline)s AND batch_id = %(batch_id)s))
ORDER BY committed_at NULLS LAST, column_id
