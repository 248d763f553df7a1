INSERT INTO offset_ledger.pipeline (pipeline, cluster_id, topic, topic_id, target, config_hash)
VALUES (%(pipeline)s, %(cluster_id)s, %(topic)s, %(topic_id)s, %(target)s, %(config_hash)s)
ON CONFLICT (pipeline) DO UPDATE SET config_hash = excluded.config_hash, updated_at = now()
