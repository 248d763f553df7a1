-- The newest batches of each pipeline, and the newest share that the gate compared with its limit.
SELECT p.pipeline, recent.batches, judged.batch_id AS judged_batch, judged.share AS quarantined_share,
       coalesce(judged.committed, false) AS judged_committed, coalesce(judged.approved, false) AS judged_approved
FROM unnest(%(pipelines)s::text[]) AS p (pipeline)
CROSS JOIN LATERAL (
    SELECT coalesce(json_agg(b ORDER BY b.batch_id), '[]') AS batches
    FROM (SELECT batch_id, kind, state FROM offset_ledger.batch
          WHERE pipeline = p.pipeline ORDER BY -batch_id LIMIT %(limit)s) AS b
) AS recent
LEFT JOIN LATERAL (
    SELECT batch_id, (verdict->>'quarantined_share')::double precision AS share,
           state = 'committed' AS committed, approval IS NOT NULL AS approved
    FROM offset_ledger.batch
    WHERE pipeline = p.pipeline AND verdict IS NOT NULL ORDER BY -batch_id LIMIT 1
) AS judged ON true
