INSERT INTO offset_ledger.subscribed_topic (file, topic, later)
SELECT %(file)s, topic, EXISTS (SELECT FROM offset_ledger.subscribed_topic WHERE file = %(file)s)
FROM unnest(%(topics)s::text[]) AS topic
ON CONFLICT DO NOTHING
