SELECT max(newest) AS newest, min(newest) AS every_partition, max(max_publish_at) AS max_publish_at
FROM offset_ledger.cursor JOIN offset_ledger.pipeline USING (pipeline, topic_id)
WHERE pipeline = %(pipeline)s
