-- What a login needs to run pipelines (ledger_writer), and what people may read (ledger_reader): docs/production.md.
-- Run it as ledger_owner after each `offset-ledger migrate`.
GRANT USAGE ON SCHEMA offset_ledger TO ledger_writer, ledger_reader;
GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA offset_ledger TO ledger_writer;
REVOKE INSERT ON offset_ledger.migration, offset_ledger.pruning, offset_ledger.pruned_reread,
  offset_ledger.pruned_dismissal, offset_ledger.renaming, offset_ledger.quarantined FROM ledger_writer;
GRANT UPDATE (state, epoch, changed_by, changed_why, config_hash, dag_id, run_id, try_number, slices_expected,
  gap_reason, rows, refused, skipped, verdict, committed_xid, claimed_at, staged_at, validated_at, ended_at, late,
  approval, engine, engine_reason, after) ON offset_ledger.batch TO ledger_writer;
GRANT UPDATE (until_offset, inserted, updated, superseded, duplicate, deleted, quarantined, skipped, gap, gap_reason,
  added, min_timestamp, max_timestamp, committed_from, committed_until, begins, follows)
  ON offset_ledger.batch_range TO ledger_writer;
GRANT UPDATE (epoch, records, rows, nulls, newest, min_publish_at, max_publish_at)
  ON offset_ledger.batch_profile TO ledger_writer;
GRANT UPDATE (next_offset, leader_epoch, batch_id, newest, max_publish_at, updated_at)
  ON offset_ledger.cursor TO ledger_writer;
GRANT UPDATE (target, ordered_by, key_places, cluster_id, topic_id, config_hash, heads, updated_at)
  ON offset_ledger.pipeline TO ledger_writer;
GRANT UPDATE (file) ON offset_ledger.target_table TO ledger_writer;
GRANT UPDATE (rows, refused, skipped, partition, min_offset, max_offset, min_timestamp, max_timestamp, unread, staged_at)
  ON offset_ledger.slice TO ledger_writer;
GRANT UPDATE (type, schema_id, committed_at), DELETE ON offset_ledger.followed_column TO ledger_writer;
GRANT UPDATE (resolved_by, retried_by, retried_reasons, dismissed_by) ON offset_ledger.quarantine TO ledger_writer;
GRANT UPDATE (outcome, reasons) ON offset_ledger.redrive_record TO ledger_writer;
GRANT UPDATE (delivered_at, at_partition, at_offset) ON offset_ledger.dead_letter TO ledger_writer;
GRANT UPDATE (next_offset) ON offset_ledger.dead_letter_mark TO ledger_writer;
GRANT UPDATE (batch_id, answer, who, why, answered_at) ON offset_ledger.decision TO ledger_writer;
GRANT UPDATE (attempts, claimed_until, error, sent_at, ended_at, last_seen_at, subject, body, link)
  ON offset_ledger.notification TO ledger_writer;
GRANT UPDATE (first_offset, ends, difference) ON offset_ledger.schema_boundary TO ledger_writer;
GRANT UPDATE (error, message, failed_at) ON offset_ledger.stage_failure TO ledger_writer;
GRANT UPDATE (group_name, since_batch) ON offset_ledger.column_group TO ledger_writer;
GRANT DELETE ON offset_ledger.topic_look TO ledger_writer;
GRANT SELECT ON ALL TABLES IN SCHEMA offset_ledger TO ledger_reader;
REVOKE SELECT ON offset_ledger.quarantine, offset_ledger.redrive_record FROM ledger_reader;  -- values of records
GRANT SELECT (quarantine_id, pipeline, topic_id, partition, "offset", "timestamp", schema_id, batch_id,
  quarantined_at, resolved_by, retried_by, dismissed_by) ON offset_ledger.quarantine TO ledger_reader;
GRANT SELECT (batch_id, quarantine_id, outcome) ON offset_ledger.redrive_record TO ledger_reader;
GRANT USAGE, CREATE ON SCHEMA offset_ledger_staging, offset_ledger_rows TO ledger_writer;
GRANT USAGE ON SCHEMA offset_ledger_rows TO ledger_reader;
