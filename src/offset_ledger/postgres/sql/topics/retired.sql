-- The newest approval that the topic of a pipeline is gone. It is of the present log, and nothing was planned after it.
SELECT DISTINCT ON (pipeline) pipeline, p.topic, d.answered_at AS since, d.who, d.why
FROM offset_ledger.decision d JOIN offset_ledger.pipeline p USING (pipeline, topic_id)
WHERE pipeline = ANY(%(pipelines)s) AND d.kind = 'topic_gone' AND d.answer = 'approve'
  AND NOT EXISTS (SELECT FROM offset_ledger.batch b
                  WHERE b.pipeline = p.pipeline AND b.kind = 'head' AND b.planned_at > d.answered_at)
ORDER BY pipeline, d.decision_id DESC
