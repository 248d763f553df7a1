SELECT clause FROM offset_ledger.target_change WHERE pipeline = %(pipeline)s ORDER BY change_id
