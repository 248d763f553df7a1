SELECT conname::text FROM pg_constraint WHERE conrelid = to_regclass(%(table)s) AND contype = 'p'
