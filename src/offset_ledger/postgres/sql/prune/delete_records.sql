-- With all that was decided and tried about them. Of dismissed ones it is kept where they were.
DELETE FROM offset_ledger.redrive_record WHERE quarantine_id = ANY(%(ids)s);
DELETE FROM offset_ledger.dismissal_record WHERE quarantine_id = ANY(%(ids)s);
DELETE FROM offset_ledger.dead_letter WHERE quarantine_id = ANY(%(ids)s);
WITH gone AS (
    DELETE FROM offset_ledger.quarantine WHERE quarantine_id = ANY(%(ids)s) RETURNING *
)
INSERT INTO offset_ledger.pruned_dismissal (pipeline, topic_id, partition, offsets)
SELECT pipeline, topic_id, partition, range_agg(int8range("offset", "offset" + 1))
FROM gone WHERE dismissed_by IS NOT NULL GROUP BY pipeline, topic_id, partition
