SELECT p.pipeline, split_part(p.topic_id, '/', 1) AS topic_id, o.batch_id, o.epoch, o.state, o.kind, o.planned_at,
       o.dag_id, o.run_id, o.late, o.verdict->'reasons' AS reasons, l.ended_at AS last_commit
FROM offset_ledger.pipeline p
LEFT JOIN offset_ledger.batch o
    ON o.pipeline = p.pipeline AND o.kind = 'head' AND o.state NOT IN ('committed', 'abandoned')
LEFT JOIN LATERAL (
    SELECT b.ended_at FROM offset_ledger.batch b
    WHERE b.pipeline = p.pipeline AND b.state = 'committed' ORDER BY -b.batch_id LIMIT 1
) l ON true
WHERE p.pipeline = ANY(%(pipelines)s)
