SELECT EXISTS (SELECT FROM offset_ledger.followed_column WHERE batch_id = %(batch_id)s AND committed_at IS NULL)
    OR EXISTS (SELECT FROM offset_ledger.schema_boundary WHERE batch_id = %(batch_id)s)
