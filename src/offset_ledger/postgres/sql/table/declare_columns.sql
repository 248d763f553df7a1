INSERT INTO offset_ledger.declared_column (pipeline, name) SELECT %(pipeline)s, unnest(%(columns)s::text[])
ON CONFLICT DO NOTHING
