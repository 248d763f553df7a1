-- Materialized: the planner may otherwise end a session before it has looked whose it is.
WITH older AS MATERIALIZED (
    SELECT a.pid, a.usename,
           pg_has_role(a.usesysid, 'USAGE') OR pg_has_role('pg_signal_backend', 'USAGE') AND NOT them.rolsuper AS ours
    FROM pg_stat_activity AS a JOIN pg_roles AS them ON them.oid = a.usesysid
    WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
      AND (regexp_match(a.application_name, %(name)s))[1]::integer < %(epoch)s
)
SELECT pid, usename AS login, ours, CASE WHEN ours THEN pg_terminate_backend(pid) ELSE false END AS ended FROM older
