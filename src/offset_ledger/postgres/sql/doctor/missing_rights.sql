-- What deploy/postgres/rights.sql grants to the login that runs pipelines, and this login lacks; of schemas and tables that exist.
WITH wanted_on_schema (name, privileges) AS (
    VALUES ('offset_ledger', ARRAY['USAGE']),
           ('offset_ledger_staging', ARRAY['USAGE', 'CREATE']),
           ('offset_ledger_rows', CASE WHEN %(beside)s THEN ARRAY['USAGE', 'CREATE'] ELSE '{}' END),
           (%(schema)s, CASE WHEN to_regclass(format('%%I.%%I', %(schema)s, %(table)s)) IS NULL
                             THEN ARRAY['USAGE', 'CREATE'] ELSE ARRAY['USAGE'] END)
), wanted_on_table AS (
    SELECT c.oid, n.nspname, c.relname, privilege
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS privilege
    WHERE c.relkind IN ('r', 'p') AND CASE
        WHEN (n.nspname, c.relname) = (%(schema)s, %(table)s) THEN privilege <> 'DELETE' OR %(hard)s
        WHEN (n.nspname, c.relname) = ('offset_ledger_rows', %(file)s) THEN privilege <> 'DELETE'
        WHEN n.nspname <> 'offset_ledger' OR privilege = 'UPDATE' THEN false
        WHEN privilege = 'INSERT' THEN c.relname NOT IN ('migration', 'pruning', 'pruned_reread', 'pruned_dismissal',
                                                              'renaming')
        WHEN privilege = 'DELETE' THEN c.relname IN ('topic_look', 'followed_column')
        ELSE true END
), updated (relname, columns) AS (VALUES
    ('batch', 'state epoch changed_by changed_why config_hash dag_id run_id try_number slices_expected gap_reason rows refused'
              ' skipped verdict committed_xid claimed_at staged_at validated_at ended_at late approval engine engine_reason'),
    ('batch_range', 'until_offset inserted updated superseded duplicate deleted quarantined skipped gap gap_reason added'
                    ' min_timestamp max_timestamp committed_from committed_until begins follows'),
    ('batch_profile', 'epoch records rows nulls newest min_publish_at max_publish_at'),
    ('cursor', 'next_offset leader_epoch batch_id newest max_publish_at updated_at'),
    ('pipeline', 'target ordered_by key_places cluster_id topic_id config_hash heads updated_at'),
    ('target_table', 'file'),
    ('slice', 'rows refused skipped partition min_offset max_offset min_timestamp max_timestamp unread staged_at'),
    ('followed_column', 'type schema_id committed_at'),
    ('quarantine', 'resolved_by retried_by retried_reasons dismissed_by'),
    ('redrive_record', 'outcome reasons'),
    ('dead_letter', 'delivered_at at_partition at_offset'),
    ('dead_letter_mark', 'next_offset'),
    ('decision', 'batch_id answer who why answered_at'),
    ('notification', 'attempts claimed_until error sent_at ended_at last_seen_at subject body link'),
    ('schema_boundary', 'first_offset ends difference'),
    ('stage_failure', 'error message failed_at')
)
SELECT 'TEMPORARY on the database' WHERE NOT has_database_privilege(current_database(), 'TEMPORARY')
UNION ALL
SELECT format('%%s on schema %%s', privilege, w.name)
FROM wanted_on_schema w JOIN pg_namespace n ON n.nspname = w.name CROSS JOIN unnest(w.privileges) AS privilege
WHERE NOT has_schema_privilege(n.oid, privilege)
UNION ALL
SELECT 'CREATE on the database, or an existing schema ' || %(schema)s
WHERE NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = %(schema)s) AND NOT has_database_privilege(current_database(), 'CREATE')
UNION ALL
(SELECT format('%%s on %%s.%%s', privilege, nspname, relname) FROM wanted_on_table
 WHERE NOT has_table_privilege(oid, privilege) ORDER BY relname, privilege)
UNION ALL
(SELECT 'UPDATE on offset_ledger.' || relname
 FROM updated JOIN pg_class AS c USING (relname) CROSS JOIN unnest(string_to_array(columns, ' ')) AS name
 WHERE c.relnamespace = to_regnamespace('offset_ledger')
 GROUP BY relname HAVING NOT bool_and(has_column_privilege(c.oid, name, 'UPDATE')) ORDER BY relname)
