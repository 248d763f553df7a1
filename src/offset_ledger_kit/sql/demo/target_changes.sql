SELECT clause FROM offset_ledger.target_change WHERE pipeline = %(pipeline)s AND clause NOT LIKE 'COMMENT ON %%' ORDER BY change_id
