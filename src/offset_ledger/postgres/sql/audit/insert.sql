INSERT INTO offset_ledger.topic_audit (audited_at, pipeline, topic, rule, severity, found, risk, remedy, who, dag_id, run_id)
VALUES %s
