UPDATE offset_ledger.batch SET engine = %(engine)s, engine_reason = %(reason)s
WHERE batch_id = %(batch_id)s AND epoch = %(epoch)s AND state = 'staging'
