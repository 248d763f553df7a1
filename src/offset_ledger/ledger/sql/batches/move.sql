UPDATE offset_ledger.batch SET state = %(after)s, changed_by = %(who)s, changed_why = %(why)s{columns}
WHERE batch_id = %(batch_id)s AND epoch = %(epoch)s AND state = %(before)s
