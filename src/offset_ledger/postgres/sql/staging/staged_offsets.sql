SELECT coalesce(sum(max_offset - min_offset + 1), 0)::bigint
FROM offset_ledger.slice WHERE batch_id = %(batch_id)s AND epoch = %(epoch)s
