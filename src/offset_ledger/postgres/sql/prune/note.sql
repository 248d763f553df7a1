INSERT INTO offset_ledger.pruning (pipeline, topic_id, older_than, until_batch_id, who)
VALUES (%(pipeline)s, %(topic_id)s, greatest(%(older_than)s, %(records_older_than)s),
        greatest(%(up_to)s::bigint, %(records_up_to)s), %(who)s)
