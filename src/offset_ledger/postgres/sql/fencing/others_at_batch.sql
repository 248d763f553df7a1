-- Sessions of others at a batch: of runs that have it alone, and of attempts. Those that are silent by the clock of
-- Postgres are ended, or all. Materialized: the planner may otherwise end a session before it has looked whose it is.
WITH others AS MATERIALIZED (
    SELECT a.pid, a.backend_start, a.client_addr, (regexp_match(a.application_name, %(alone)s))[1] AS who,
           coalesce(a.state = 'active' OR a.state_change > clock_timestamp() - make_interval(secs => %(silent)s), true)
               AS alive,
           pg_has_role(a.usesysid, 'USAGE') OR pg_has_role('pg_signal_backend', 'USAGE') AND NOT them.rolsuper AS ours
    FROM pg_stat_activity AS a JOIN pg_roles AS them ON them.oid = a.usesysid
    WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
      AND (a.application_name ~ %(alone)s OR a.application_name ~ %(attempts)s)
)
SELECT o.pid, coalesce(o.who, b.changed_by) AS who, o.client_addr, b.pipeline,
       CASE WHEN o.who IS NULL THEN b.claimed_at ELSE o.backend_start END AS since,
       o.alive AND (o.who IS NOT NULL OR b.changed_by LIKE 'airflow:%%') AS alive,
       CASE WHEN o.ours AND (%(take_over)s OR o.who IS NOT NULL AND NOT o.alive) THEN pg_terminate_backend(o.pid) END
FROM others AS o JOIN offset_ledger.batch AS b ON b.batch_id = %(batch_id)s
ORDER BY o.who IS NULL, o.pid
