INSERT INTO offset_ledger.batch_profile
    (batch_id, epoch, records, rows, nulls, newest, min_publish_at, max_publish_at)
SELECT %(batch_id)s, %(epoch)s, %(records)s, %(rows)s, %(nulls)s, %(newest)s, %(min_publish_at)s, %(max_publish_at)s
ON CONFLICT (batch_id) DO UPDATE SET
    epoch = excluded.epoch, records = excluded.records, rows = excluded.rows, nulls = excluded.nulls,
    newest = excluded.newest, min_publish_at = excluded.min_publish_at, max_publish_at = excluded.max_publish_at
