UPDATE offset_ledger.followed_column SET committed_at = now() WHERE pipeline = %(pipeline)s AND batch_id = %(batch_id)s
