-- A person may settle once that a topic of several was deleted: the approved question says who, when and why, and holds for the log that
-- the pipeline reads (its topic_id), until it reads something again.
ALTER TABLE offset_ledger.decision DROP CONSTRAINT decision_kind_check;
ALTER TABLE offset_ledger.decision ADD CONSTRAINT decision_kind_check CHECK (kind IN
    ('lost_range', 'recreated_topic', 'truncated_log', 'topic_gone', 'unread_tombstones', 'rejected_batch', 'remerge',
     'changed_schema'));
