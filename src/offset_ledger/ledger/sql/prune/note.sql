INSERT INTO offset_ledger.pruning (pipeline, topic_id, older_than, until_batch_id, who)
VALUES (%(pipeline)s, %(topic_id)s, %(older_than)s, %(up_to)s, %(who)s)
