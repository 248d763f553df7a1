SELECT unread FROM offset_ledger.slice
WHERE batch_id = %(batch_id)s AND epoch = %(epoch)s AND unread IS NOT NULL ORDER BY slice_no
