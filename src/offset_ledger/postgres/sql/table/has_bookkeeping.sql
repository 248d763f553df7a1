-- By the catalog: to_regclass() needs a right on the schema, which a pipeline with columns of its own never does.
SELECT EXISTS (SELECT FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
               WHERE nspname = 'offset_ledger_rows' AND relname = %(file)s)
