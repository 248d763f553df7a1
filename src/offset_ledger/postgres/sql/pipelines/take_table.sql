UPDATE offset_ledger.pipeline SET target = NULL WHERE target = %(target)s AND file <> %(file)s;
INSERT INTO offset_ledger.target_table (target, file) VALUES (%(target)s, %(file)s)
ON CONFLICT (target) DO UPDATE SET file = excluded.file
