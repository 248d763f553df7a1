INSERT INTO offset_ledger.decision (pipeline, kind, topic_id, batch_id, question, details, dag_id, run_id)
VALUES (%(pipeline)s, %(kind)s, %(topic_id)s, %(batch_id)s, %(question)s, %(details)s, %(dag_id)s, %(run_id)s)
RETURNING decision_id
