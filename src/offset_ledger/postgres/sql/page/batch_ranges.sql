SELECT partition, from_offset, until_offset, inserted, updated, superseded, duplicate, deleted, quarantined, skipped,
       gap, gap_reason, min_timestamp, max_timestamp
FROM offset_ledger.batch_range WHERE batch_id = %(batch_id)s ORDER BY partition
