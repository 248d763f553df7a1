SELECT coalesce(sum(rows + refused + skipped), 0)::bigint, max(max_timestamp)
FROM offset_ledger.slice WHERE batch_id = %(batch_id)s AND epoch = %(epoch)s
