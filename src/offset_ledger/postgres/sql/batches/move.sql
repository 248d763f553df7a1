UPDATE offset_ledger.batch SET state = %(after)s, changed_by = %(who)s, changed_why = %(why)s,
    after = CASE WHEN %(after)s <> 'abandoned' THEN batch.after END{columns}
WHERE batch_id = %(batch_id)s AND epoch = %(epoch)s AND state = %(before)s
