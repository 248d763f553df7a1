-- The newest batches of each pipeline.
SELECT p.pipeline, recent.batches
FROM unnest(%(pipelines)s::text[]) AS p (pipeline)
CROSS JOIN LATERAL (
    SELECT coalesce(json_agg(b ORDER BY b.batch_id), '[]') AS batches
    FROM (SELECT batch_id, kind, state FROM offset_ledger.batch
          WHERE pipeline = p.pipeline ORDER BY -batch_id LIMIT %(limit)s) AS b
) AS recent
