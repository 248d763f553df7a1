UPDATE offset_ledger.slice
SET rows = %(rows)s, refused = %(refused)s, skipped = %(skipped)s, partition = %(partition)s, min_offset = %(min_offset)s,
    max_offset = %(max_offset)s, min_timestamp = %(min_timestamp)s, max_timestamp = %(max_timestamp)s,
    unread = %(unread)s, staged_at = clock_timestamp()
WHERE batch_id = %(batch_id)s AND epoch = %(epoch)s AND slice_no = %(slice_no)s
