-- Materialized: for a limit the planner would choose another plan, that is slow where nothing is found.
WITH found AS MATERIALIZED (
{query}
)
SELECT * FROM found LIMIT %(limit)s
