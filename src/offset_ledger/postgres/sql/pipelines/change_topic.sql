UPDATE offset_ledger.pipeline SET topic_id = %(topic_id)s, cluster_id = %(cluster_id)s, updated_at = now()
WHERE pipeline = %(pipeline)s
