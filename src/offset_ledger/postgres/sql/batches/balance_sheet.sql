SELECT partition, inserted, updated, superseded, duplicate, deleted, quarantined, skipped, gap
FROM offset_ledger.batch_range WHERE batch_id = %(batch_id)s ORDER BY partition
