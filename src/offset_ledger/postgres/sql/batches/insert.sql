INSERT INTO offset_ledger.batch
    (pipeline, kind, topic_id, config_hash, dag_id, run_id, try_number, code_version, changed_by, changed_why, request, after)
SELECT pipeline, %(kind)s, topic_id, %(config_hash)s, %(dag_id)s, %(run_id)s, %(try_number)s, %(code_version)s, %(who)s,
       %(why)s, %(request)s, %(after)s
FROM offset_ledger.pipeline WHERE pipeline = %(pipeline)s
RETURNING batch_id, topic_id
