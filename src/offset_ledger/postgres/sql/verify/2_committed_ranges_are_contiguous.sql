SELECT format('partition %%s: range [%%s, %%s) of batch %%s does not follow %%s', partition, committed_from, committed_until,
              batch_id, previous)
FROM (SELECT r.*, coalesce(lag(committed_until) OVER chain, b.start_offset) AS previous
      FROM offset_ledger.batch_range r
      LEFT JOIN offset_ledger.beginning b USING (pipeline, topic_id, partition)
      WHERE r.pipeline = %(pipeline)s AND committed_from IS NOT NULL
      WINDOW chain AS (PARTITION BY r.topic_id, r.partition ORDER BY committed_from)) AS r
WHERE committed_from IS DISTINCT FROM previous
