-- Materialized: the planner may otherwise end a session before it has looked whose it is.
WITH stalled AS MATERIALIZED (
    SELECT pid FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name ~ %(name)s
      AND state LIKE 'idle in transaction%%' AND state_change < clock_timestamp() - interval '5 seconds'
)
SELECT pid FROM stalled WHERE pg_terminate_backend(pid)
