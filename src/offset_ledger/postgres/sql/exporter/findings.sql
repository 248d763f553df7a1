-- How many rules of each severity the newest audit of a pipeline's topic has found.
SELECT pipeline, severity, count(*) AS findings FROM offset_ledger.topic_audit a
WHERE pipeline = ANY(%(pipelines)s) AND severity IN ('error', 'warning')
  AND audited_at = (SELECT max(audited_at) FROM offset_ledger.topic_audit n WHERE n.pipeline = a.pipeline)
GROUP BY pipeline, severity
