SELECT max(newest) AS newest, min(newest) AS every_partition, max(max_publish_at) AS max_publish_at
FROM (SELECT r.partition, max(r.max_timestamp) AS newest, max(p.max_publish_at) AS max_publish_at
      FROM offset_ledger.batch_range r JOIN offset_ledger.pipeline USING (pipeline, topic_id)
      LEFT JOIN offset_ledger.batch_profile p USING (batch_id)
      WHERE pipeline = %(pipeline)s AND r.committed_until IS NOT NULL
      GROUP BY r.partition) AS by_partition
