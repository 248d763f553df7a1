DELETE FROM offset_ledger.followed_column WHERE pipeline = %(pipeline)s AND committed_at IS NULL
