INSERT INTO offset_ledger.column_group AS c (file, name, group_name, since_batch)
SELECT %(file)s, name, group_name, %(batch_id)s FROM unnest(%(names)s::text[], %(groups)s::text[]) AS n (name, group_name)
ON CONFLICT (file, name) DO UPDATE SET group_name = excluded.group_name, since_batch = excluded.since_batch
