-- Materialized: the planner may otherwise end a session before it has looked whose it is.
WITH older AS MATERIALIZED (
    SELECT pid FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
      AND (regexp_match(application_name, %(name)s))[1]::integer < %(epoch)s
)
SELECT pid FROM older WHERE pg_terminate_backend(pid)
