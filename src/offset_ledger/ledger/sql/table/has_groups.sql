SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass(%(table)s) AND attname = '_group' AND NOT attisdropped)
