SELECT partition, next_offset FROM offset_ledger.cursor
WHERE pipeline = %(pipeline)s AND topic_id = %(topic_id)s ORDER BY partition FOR UPDATE
