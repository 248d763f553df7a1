INSERT INTO offset_ledger.decision (pipeline, kind, topic_id, question, details, answer, who, why, answered_at)
SELECT pipeline, 'remerge', topic_id, %(question)s, %(details)s, 'approve', %(who)s, %(why)s, now()
FROM offset_ledger.pipeline WHERE pipeline = %(pipeline)s
