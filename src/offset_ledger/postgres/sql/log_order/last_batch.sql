(SELECT max(batch_id) FROM offset_ledger.batch WHERE pipeline = {} AND topic_id = %(topic_id)s)
