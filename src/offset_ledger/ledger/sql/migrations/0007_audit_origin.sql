-- Who ran an audit, as batches have it; NULL in the rows of before. And an index that follows a rule over the audits.
ALTER TABLE offset_ledger.topic_audit ADD COLUMN who text, ADD COLUMN dag_id text, ADD COLUMN run_id text;
CREATE INDEX topic_audit_by_rule ON offset_ledger.topic_audit (pipeline, topic, rule, audited_at) INCLUDE (severity);
