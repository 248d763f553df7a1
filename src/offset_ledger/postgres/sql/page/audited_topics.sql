-- The topics that were audited for each pipeline, found by skipping through the index from one to the next.
WITH RECURSIVE audited AS (
    SELECT p.pipeline, (SELECT min(topic) FROM offset_ledger.topic_audit WHERE pipeline = p.pipeline) AS topic
    FROM unnest(%(pipelines)s::text[]) AS p (pipeline)
    UNION ALL
    SELECT a.pipeline, (SELECT min(topic) FROM offset_ledger.topic_audit WHERE pipeline = a.pipeline AND topic > a.topic)
    FROM audited a WHERE a.topic IS NOT NULL
)
SELECT pipeline, topic FROM audited WHERE topic IS NOT NULL ORDER BY pipeline, topic
