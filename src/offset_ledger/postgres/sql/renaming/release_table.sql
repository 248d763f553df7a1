UPDATE offset_ledger.pipeline SET target = NULL WHERE file = %(file)s;
DELETE FROM offset_ledger.target_table WHERE file = %(file)s
