UPDATE offset_ledger.batch_range SET until_offset = %(until_offset)s
WHERE batch_id = %(batch_id)s AND partition = %(partition)s AND from_offset < %(until_offset)s AND until_offset > %(until_offset)s
