SELECT slice_no, rows, refused, skipped, partition, min_offset, max_offset FROM offset_ledger.slice
WHERE batch_id = %(batch_id)s AND epoch = %(epoch)s ORDER BY slice_no
