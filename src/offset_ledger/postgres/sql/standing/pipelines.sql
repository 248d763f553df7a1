-- A row for each of these pipelines, or, where none is named, of all but forgotten ones: its open head batch, its last commit, what waits
-- for people, and the newest share that the gate compared with its limit. Quarantine is counted up to a limit only. An attempt
-- has a session of its name until it has staged the batch: without one it is silent since its claim or its last slice.
SELECT p.pipeline, split_part(p.topic_id, '/', 1) AS topic_id, o.batch_id, o.epoch, o.state, o.kind, o.planned_at,
       o.dag_id, o.run_id, o.late, o.verdict->'reasons' AS reasons,
       CASE WHEN o.state = 'staging' AND o.late IS NULL AND NOT EXISTS (
           SELECT FROM pg_stat_activity a WHERE a.datname = current_database()
             AND starts_with(a.application_name, 'offset-ledger b' || o.batch_id || ' e' || o.epoch || ' ')
       ) THEN (
           SELECT greatest(o.claimed_at, max(s.staged_at)) FROM offset_ledger.slice s
           WHERE s.batch_id = o.batch_id AND s.epoch = o.epoch
           HAVING greatest(o.claimed_at, max(s.staged_at)) < clock_timestamp() - interval '10 seconds'
       ) END AS silent_since, l.ended_at AS last_commit, q.question,
       judged.batch_id AS judged_batch, judged.share AS judged_share,
       coalesce(judged.committed, false) AS judged_committed, coalesce(judged.approved, false) AS judged_approved,
       (SELECT count(*) FROM (
           SELECT FROM offset_ledger.quarantine u
           WHERE u.pipeline = p.pipeline AND u.resolved_by IS NULL AND u.dismissed_by IS NULL LIMIT %(limit)s
       ) AS unresolved) AS quarantined
FROM offset_ledger.pipeline p
LEFT JOIN offset_ledger.batch o
    ON o.pipeline = p.pipeline AND o.kind = 'head' AND o.state NOT IN ('committed', 'abandoned') AND o.after IS NULL
LEFT JOIN LATERAL (
    SELECT b.ended_at FROM offset_ledger.batch b
    WHERE b.pipeline = p.pipeline AND b.state = 'committed' ORDER BY -b.batch_id LIMIT 1
) l ON true
LEFT JOIN LATERAL (
    SELECT d.question FROM offset_ledger.decision d
    WHERE d.pipeline = p.pipeline AND d.answered_at IS NULL ORDER BY d.asked_at LIMIT 1
) q ON true
LEFT JOIN LATERAL (
    SELECT b.batch_id, (b.verdict->>'quarantined_share')::double precision AS share,
           b.state = 'committed' AS committed, b.approval IS NOT NULL AS approved
    FROM offset_ledger.batch b
    WHERE b.pipeline = p.pipeline AND b.verdict IS NOT NULL ORDER BY -b.batch_id LIMIT 1
) judged ON true
WHERE CASE WHEN %(pipelines)s::text[] IS NULL THEN p.file !~ '~' ELSE p.pipeline = ANY(%(pipelines)s) END
ORDER BY p.pipeline
