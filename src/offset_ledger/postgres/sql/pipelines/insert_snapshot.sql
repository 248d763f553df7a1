INSERT INTO offset_ledger.topic_look (pipeline, topic_id, seen_at, last_stables, delete_retention_ms)
VALUES (%(pipeline)s, %(topic_id)s, %(seen_at)s, %(last_stables)s, %(delete_retention_ms)s)
