-- One statement: its foreign keys are checked at the end, when every table has the new name. A file of several topics has a pipeline
-- FILE@TOPIC for each, and its own name in audits and notifications: open notifications
-- end, and come again under the new name. A plan of the new file may have left its topics before it was refused.
DELETE FROM offset_ledger.subscribed_topic WHERE file = %(new)s;
WITH
t1 AS (UPDATE offset_ledger.beginning SET pipeline = %(new)s || substr(pipeline, %(cut)s) WHERE pipeline = ANY(%(names)s)),
t2 AS (UPDATE offset_ledger.batch SET pipeline = %(new)s || substr(pipeline, %(cut)s) WHERE pipeline = ANY(%(names)s)),
t3 AS (UPDATE offset_ledger.batch_range SET pipeline = %(new)s || substr(pipeline, %(cut)s) WHERE pipeline = ANY(%(names)s)),
t4 AS (UPDATE offset_ledger.cursor SET pipeline = %(new)s || substr(pipeline, %(cut)s) WHERE pipeline = ANY(%(names)s)),
t5 AS (UPDATE offset_ledger.quarantine SET pipeline = %(new)s || substr(pipeline, %(cut)s) WHERE pipeline = ANY(%(names)s)),
t6 AS (UPDATE offset_ledger.dead_letter_mark SET pipeline = %(new)s || substr(pipeline, %(cut)s) WHERE pipeline = ANY(%(names)s)),
t7 AS (UPDATE offset_ledger.decision SET pipeline = %(new)s || substr(pipeline, %(cut)s) WHERE pipeline = ANY(%(names)s)),
t8 AS (UPDATE offset_ledger.topic_audit SET pipeline = %(new)s || substr(pipeline, %(cut)s) WHERE pipeline = ANY(%(names)s)),
t9 AS (UPDATE offset_ledger.topic_look SET pipeline = %(new)s || substr(pipeline, %(cut)s) WHERE pipeline = ANY(%(names)s)),
t10 AS (UPDATE offset_ledger.declared_column SET pipeline = %(new)s || substr(pipeline, %(cut)s) WHERE pipeline = ANY(%(names)s)),
t11 AS (UPDATE offset_ledger.table_count SET pipeline = %(new)s || substr(pipeline, %(cut)s) WHERE pipeline = ANY(%(names)s)),
t12 AS (UPDATE offset_ledger.dismissal SET pipeline = %(new)s || substr(pipeline, %(cut)s) WHERE pipeline = ANY(%(names)s)),
t13 AS (UPDATE offset_ledger.pruning SET pipeline = %(new)s || substr(pipeline, %(cut)s) WHERE pipeline = ANY(%(names)s)),
t14 AS (UPDATE offset_ledger.writer_schema SET pipeline = %(new)s || substr(pipeline, %(cut)s) WHERE pipeline = ANY(%(names)s)),
t15 AS (UPDATE offset_ledger.schema_guid SET pipeline = %(new)s || substr(pipeline, %(cut)s) WHERE pipeline = ANY(%(names)s)),
t16 AS (UPDATE offset_ledger.target_change SET pipeline = %(new)s || substr(pipeline, %(cut)s) WHERE pipeline = ANY(%(names)s)),
t17 AS (UPDATE offset_ledger.followed_column SET pipeline = %(new)s || substr(pipeline, %(cut)s) WHERE pipeline = ANY(%(names)s)),
t18 AS (UPDATE offset_ledger.accepted_difference SET pipeline = %(new)s || substr(pipeline, %(cut)s) WHERE pipeline = ANY(%(names)s)),
t19 AS (UPDATE offset_ledger.pruned_dismissal SET pipeline = %(new)s || substr(pipeline, %(cut)s) WHERE pipeline = ANY(%(names)s)),
t20 AS (UPDATE offset_ledger.notification SET pipeline = %(new)s || substr(pipeline, %(cut)s), ended_at = coalesce(ended_at, now())
        WHERE pipeline = ANY(%(names)s)),
t21 AS (UPDATE offset_ledger.target_table SET file = %(new)s WHERE file = %(old)s),
t22 AS (UPDATE offset_ledger.subscribed_topic SET file = %(new)s WHERE file = %(old)s),
t23 AS (UPDATE offset_ledger.column_group SET file = %(new)s WHERE file = %(old)s)
UPDATE offset_ledger.pipeline SET pipeline = %(new)s || substr(pipeline, %(cut)s) WHERE pipeline = ANY(%(names)s)
