SELECT path, difference FROM offset_ledger.accepted_difference
WHERE split_part(pipeline, '@', 1) = split_part(%(pipeline)s, '@', 1)
